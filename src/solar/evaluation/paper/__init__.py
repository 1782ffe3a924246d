"""The paper's tables and figures, published beside measured."""
