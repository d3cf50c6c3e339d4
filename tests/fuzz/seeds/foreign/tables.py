# Tables of a small recommender.
from torchrec import EmbeddingBagConfig

tables = [
    EmbeddingBagConfig(
        name="user",
        embedding_dim=128,
        num_embeddings=40_000_000,
        feature_names=["user_id"],
    ),
    EmbeddingBagConfig(name="item", embedding_dim=128, num_embeddings=2_000_000,
                       feature_names=["item_id", "last_items"], pooling=PoolingType.SUM,
                       data_type=DataType.FP16),
    EmbeddingBagConfig(name="shop", embedding_dim=128, num_embeddings=50000, feature_names=["shop"]),
]
