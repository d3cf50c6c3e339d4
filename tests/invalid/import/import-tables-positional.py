tables = [EmbeddingBagConfig("a", 64, 1000)]
