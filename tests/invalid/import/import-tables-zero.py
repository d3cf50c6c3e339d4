[EmbeddingBagConfig(name="a", num_embeddings=0, embedding_dim=64, pooling_factor=1)]
