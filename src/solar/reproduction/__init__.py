"""The paper's tables and figures, with what has to be trained for them."""
