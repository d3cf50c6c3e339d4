[EmbeddingBagConfig(name="a", embedding_dim=64)]
