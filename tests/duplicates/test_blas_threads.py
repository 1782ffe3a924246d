from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from solar.duplicates.blas_threads import one_core_each


def cores() -> set[int]:
    """Of NumPy's matrix products."""
    own = [one for one in threadpool_info() if "numpy" in one["filepath"]]
    return {one["num_threads"] for one in own if one["user_api"] == "blas"}


def test_threads_inside_share_no_product_and_all_is_as_before_behind_it() -> None:
    np.eye(2) @ np.eye(2)
    with threadpool_limits(2, user_api="blas"):
        with one_core_each(), ThreadPoolExecutor(1) as threads:
            assert threads.submit(cores).result() == {1}
        assert cores() == {2}
