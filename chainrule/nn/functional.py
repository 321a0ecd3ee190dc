"""The functions that layers are made of, by PyTorch's names: `nn.functional`, usually called F."""
# ruff: noqa: I001  (one list of names for each module; `name as name` is what makes them public)

from chainrule.engine.border import with_border as _with_border
from chainrule.nn.ctc import ctc_loss as ctc_loss
from chainrule.ops.networks.activations import (
    celu as celu,
    glu as glu,
    hardshrink as hardshrink,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    logsigmoid as logsigmoid,
    mish as mish,
    prelu as prelu,
    relu6 as relu6,
    selu as selu,
    softmin as softmin,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    tanhshrink as tanhshrink,
    threshold as threshold,
)
from chainrule.ops.windows.adaptive_pooling import (
    adaptive_avg_pool as adaptive_avg_pool,
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool as adaptive_max_pool,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool3d as adaptive_max_pool3d,
)
from chainrule.ops.losses.common_losses import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cross_entropy as cross_entropy,
    mse_loss as mse_loss,
)
from chainrule.ops.networks.composite import (
    bilinear as bilinear,
    dropout as dropout,
    elu as elu,
    embedding as embedding,
    gelu as gelu,
    layer_norm as layer_norm,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    rms_norm as rms_norm,
    scaled_dot_product_attention as scaled_dot_product_attention,
    silu as silu,
    softmax as softmax,
)
from chainrule.ops.windows.convolution import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    fold as fold,
    unfold as unfold,
)
from chainrule.ops.reductions.distances import (
    cosine_similarity as cosine_similarity,
    normalize as normalize,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
)
from chainrule.ops.elementwise import (
    relu as relu,
    sigmoid as sigmoid,
    tanh as tanh,
)
from chainrule.ops.networks.embedding_bags import embedding_bag as embedding_bag
from chainrule.ops.windows.fractional_pooling import (
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool3d as fractional_max_pool3d,
)
from chainrule.ops.windows.grid_sampling import (
    affine_grid as affine_grid,
    grid_sample as grid_sample,
)
from chainrule.ops.losses.losses import (
    binary_cross_entropy as binary_cross_entropy,
    gaussian_nll_loss as gaussian_nll_loss,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    nll_loss as nll_loss,
    poisson_nll_loss as poisson_nll_loss,
    smooth_l1_loss as smooth_l1_loss,
)
from chainrule.ops.losses.margin_losses import (
    cosine_embedding_loss as cosine_embedding_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    margin_ranking_loss as margin_ranking_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from chainrule.ops.networks.linear import linear as linear
from chainrule.ops.networks.noise import (
    alpha_dropout as alpha_dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
    gumbel_softmax as gumbel_softmax,
    rrelu as rrelu,
)
from chainrule.ops.networks.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    local_response_norm as local_response_norm,
)
from chainrule.ops.shapes.padding_last import pad as pad
from chainrule.ops.windows.pooling import (
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
)
from chainrule.ops.shapes.rearranging import (
    channel_shuffle as channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)
from chainrule.ops.windows.resizing import interpolate as interpolate
from chainrule.ops.indexing.selection import one_hot as one_hot
from chainrule.ops.windows.unpooling import (
    lp_pool as lp_pool,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_unpool as max_unpool,
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
from chainrule.names.spellings import missing_name_getter as _missing_name_getter

__getattr__ = _missing_name_getter(__name__)
_with_border(globals())
