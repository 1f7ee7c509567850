"""Guest images: the catalogue of recipes, the builders, and the store of what is built."""
