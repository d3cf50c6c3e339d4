tables = [
  EmbeddingBagConfig(name="a", num_embeddings=10 * 1000, embedding_dim=64),
]
