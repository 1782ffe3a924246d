"""A patch recipe's data, opened: the source of its pairs and what it is validated on."""
