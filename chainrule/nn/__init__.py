"""Modules: functions with parameters. PyTorch's names and defaults."""

from chainrule.engine.border import with_border as _with_border
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
from chainrule.nn import activations, functional, init, losses
from chainrule.nn.activations import PReLU
from chainrule.nn.adaptive_softmax import AdaptiveLogSoftmaxWithLoss
from chainrule.nn.attention.encoder_decoder import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from chainrule.nn.attention.multihead import MultiheadAttention
from chainrule.nn.attention.rotary import RotaryEmbedding
from chainrule.nn.attention.transformer import Block, CausalSelfAttention, FeedForward
from chainrule.nn.base.checkpointed_modules import Checkpoint
from chainrule.nn.base.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from chainrule.nn.base.module import Incompatible, Module
from chainrule.nn.base.reparametrization import spectral_norm, weight_norm
from chainrule.nn.dropouts import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
    RReLU,
)
from chainrule.nn.embeddings import Embedding, EmbeddingBag
from chainrule.nn.layers import Bilinear, LayerNorm, Linear, RMSNorm
from chainrule.nn.recurrent.cells import GRUCell, LSTMCell, RNNCell
from chainrule.nn.recurrent.layers import GRU, LSTM, RNN
from chainrule.nn.spatial import pools, rearranging
from chainrule.nn.spatial.convolutions import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from chainrule.nn.spatial.norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LocalResponseNorm,
)
from chainrule.nn.spatial.pools import (
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)

ReLU = activations.CLASSES["ReLU"]
ReLU6 = activations.CLASSES["ReLU6"]
LeakyReLU = activations.CLASSES["LeakyReLU"]
ELU = activations.CLASSES["ELU"]
CELU = activations.CLASSES["CELU"]
SELU = activations.CLASSES["SELU"]
GELU = activations.CLASSES["GELU"]
SiLU = activations.CLASSES["SiLU"]
Mish = activations.CLASSES["Mish"]
Sigmoid = activations.CLASSES["Sigmoid"]
LogSigmoid = activations.CLASSES["LogSigmoid"]
Hardsigmoid = activations.CLASSES["Hardsigmoid"]
Hardswish = activations.CLASSES["Hardswish"]
Tanh = activations.CLASSES["Tanh"]
Hardtanh = activations.CLASSES["Hardtanh"]
Tanhshrink = activations.CLASSES["Tanhshrink"]
Softplus = activations.CLASSES["Softplus"]
Softsign = activations.CLASSES["Softsign"]
Softshrink = activations.CLASSES["Softshrink"]
Hardshrink = activations.CLASSES["Hardshrink"]
Threshold = activations.CLASSES["Threshold"]
GLU = activations.CLASSES["GLU"]
Softmax = activations.CLASSES["Softmax"]
LogSoftmax = activations.CLASSES["LogSoftmax"]
Softmin = activations.CLASSES["Softmin"]
Softmax2d = activations.CLASSES["Softmax2d"]
MSELoss = losses.CLASSES["MSELoss"]
L1Loss = losses.CLASSES["L1Loss"]
SmoothL1Loss = losses.CLASSES["SmoothL1Loss"]
HuberLoss = losses.CLASSES["HuberLoss"]
CrossEntropyLoss = losses.CLASSES["CrossEntropyLoss"]
NLLLoss = losses.CLASSES["NLLLoss"]
BCELoss = losses.CLASSES["BCELoss"]
BCEWithLogitsLoss = losses.CLASSES["BCEWithLogitsLoss"]
KLDivLoss = losses.CLASSES["KLDivLoss"]
PoissonNLLLoss = losses.CLASSES["PoissonNLLLoss"]
GaussianNLLLoss = losses.CLASSES["GaussianNLLLoss"]
HingeEmbeddingLoss = losses.CLASSES["HingeEmbeddingLoss"]
SoftMarginLoss = losses.CLASSES["SoftMarginLoss"]
MultiLabelSoftMarginLoss = losses.CLASSES["MultiLabelSoftMarginLoss"]
MultiMarginLoss = losses.CLASSES["MultiMarginLoss"]
MarginRankingLoss = losses.CLASSES["MarginRankingLoss"]
CosineEmbeddingLoss = losses.CLASSES["CosineEmbeddingLoss"]
TripletMarginLoss = losses.CLASSES["TripletMarginLoss"]
MultiLabelMarginLoss = losses.CLASSES["MultiLabelMarginLoss"]
TripletMarginWithDistanceLoss = losses.CLASSES["TripletMarginWithDistanceLoss"]
CTCLoss = losses.CLASSES["CTCLoss"]
CosineSimilarity = losses.CLASSES["CosineSimilarity"]
PairwiseDistance = losses.CLASSES["PairwiseDistance"]
Identity = rearranging.CLASSES["Identity"]
Flatten = rearranging.CLASSES["Flatten"]
Unflatten = rearranging.CLASSES["Unflatten"]
PixelShuffle = rearranging.CLASSES["PixelShuffle"]
PixelUnshuffle = rearranging.CLASSES["PixelUnshuffle"]
ChannelShuffle = rearranging.CLASSES["ChannelShuffle"]
Upsample = rearranging.CLASSES["Upsample"]
UpsamplingNearest2d = rearranging.CLASSES["UpsamplingNearest2d"]
UpsamplingBilinear2d = rearranging.CLASSES["UpsamplingBilinear2d"]
Unfold = rearranging.CLASSES["Unfold"]
Fold = rearranging.CLASSES["Fold"]
ZeroPad1d = rearranging.CLASSES["ZeroPad1d"]
ZeroPad2d = rearranging.CLASSES["ZeroPad2d"]
ZeroPad3d = rearranging.CLASSES["ZeroPad3d"]
ReflectionPad1d = rearranging.CLASSES["ReflectionPad1d"]
ReflectionPad2d = rearranging.CLASSES["ReflectionPad2d"]
ReflectionPad3d = rearranging.CLASSES["ReflectionPad3d"]
ReplicationPad1d = rearranging.CLASSES["ReplicationPad1d"]
ReplicationPad2d = rearranging.CLASSES["ReplicationPad2d"]
ReplicationPad3d = rearranging.CLASSES["ReplicationPad3d"]
CircularPad1d = rearranging.CLASSES["CircularPad1d"]
CircularPad2d = rearranging.CLASSES["CircularPad2d"]
CircularPad3d = rearranging.CLASSES["CircularPad3d"]
ConstantPad1d = rearranging.CLASSES["ConstantPad1d"]
ConstantPad2d = rearranging.CLASSES["ConstantPad2d"]
ConstantPad3d = rearranging.CLASSES["ConstantPad3d"]
MaxPool1d = pools.CLASSES["MaxPool1d"]
MaxPool2d = pools.CLASSES["MaxPool2d"]
MaxPool3d = pools.CLASSES["MaxPool3d"]
AvgPool1d = pools.CLASSES["AvgPool1d"]
AvgPool2d = pools.CLASSES["AvgPool2d"]
AvgPool3d = pools.CLASSES["AvgPool3d"]
LPPool1d = pools.CLASSES["LPPool1d"]
LPPool2d = pools.CLASSES["LPPool2d"]
LPPool3d = pools.CLASSES["LPPool3d"]
AdaptiveAvgPool1d = pools.CLASSES["AdaptiveAvgPool1d"]
AdaptiveAvgPool2d = pools.CLASSES["AdaptiveAvgPool2d"]
AdaptiveAvgPool3d = pools.CLASSES["AdaptiveAvgPool3d"]
AdaptiveMaxPool1d = pools.CLASSES["AdaptiveMaxPool1d"]
AdaptiveMaxPool2d = pools.CLASSES["AdaptiveMaxPool2d"]
AdaptiveMaxPool3d = pools.CLASSES["AdaptiveMaxPool3d"]

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Block",
    "CTCLoss",
    "CausalSelfAttention",
    "ChannelShuffle",
    "Checkpoint",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "FeedForward",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "Incompatible",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "RotaryEmbedding",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "functional",
    "init",
    "spectral_norm",
    "weight_norm",
]
__getattr__ = _missing_name_getter(__name__)
_with_border(globals())
