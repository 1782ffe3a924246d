"""Pictures of what was found. Functions return images or figures; commands save them."""
