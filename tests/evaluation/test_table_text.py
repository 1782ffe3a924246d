from solar.evaluation.table_text import Table, number, to_latex, to_markdown, to_text

TABLE = Table(
    [["Method"], ["A", "mAP"], ["A", "mP@10"], ["B", "mAP"]],
    [[["one_1", "1.0", "", "3.0"]], [["two", "10.0", "20.0", "30.0"]]],
    "In percent.",
)


def test_text_is_aligned_with_headings_over_their_columns() -> None:
    assert to_text(TABLE).splitlines() == [
        "           A            B",
        "Method   mAP  mP@10   mAP",
        "─────────────────────────",
        "one_1    1.0          3.0",
        "─────────────────────────",
        "two     10.0   20.0  30.0",
        "In percent.",
    ]


def test_markdown_joins_the_levels_of_a_heading() -> None:
    lines = to_markdown(TABLE).splitlines()
    assert lines[0] == "| Method | A mAP | A mP@10 | B mAP |"
    assert lines[1] == "| --- | ---: | ---: | ---: |"
    assert lines[3] == "| two | 10.0 | 20.0 | 30.0 |"
    assert lines[-2:] == ["", "In percent."]


def test_latex_spans_columns_and_escapes() -> None:
    lines = to_latex(TABLE).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[2] == r" & \multicolumn{2}{c}{A} & B \\"
    assert lines[5] == r"one\_1 & 1.0 &  & 3.0 \\"
    assert lines.count(r"\midrule") == 2


def test_neighbours_under_different_headings_stay_apart() -> None:
    table = Table([["p"], ["A", "mAP"], ["B", "mAP"]], [[["1", "2", "3"]]])
    assert table.levels == [[("", 1), ("A", 1), ("B", 1)], [("p", 1), ("mAP", 1), ("mAP", 1)]]


def test_no_number_is_an_empty_cell() -> None:
    assert (number(None), number(2.345, 2)) == ("", "2.35")
