[EmbeddingBagConfig(name="a", num_embeddings=10, embedding_dim=64)]
