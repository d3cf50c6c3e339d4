# Tables of a small recommender.
from torchrec import EmbeddingBagConfig

tables = [
    EmbeddingBagConfig(
        name="user",
        embedding_dim=128,
        num_embeddings=40_000_000,
        feature_names=["user_id"],
        pooling_factor=1,
    ),
    EmbeddingBagConfig(name="item", embedding_dim=128, num_embeddings=2_000_000,
                       feature_names=["item_id", "last_items"], pooling=PoolingType.SUM, pooling_factor=12.5,
                       data_type=DataType.FP16),
    EmbeddingBagConfig(name="shop", embedding_dim=128, num_embeddings=50000, feature_names=["shop"], pooling_factor=1),
]
