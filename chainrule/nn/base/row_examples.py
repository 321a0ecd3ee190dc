"""An example of each module that is a row of a table, which stands in its docstring."""

from __future__ import annotations

from chainrule.names.examples import by_name

EXAMPLES = by_name(
    """
>>> nn.ReLU()(cr.tensor([-1.0, 2.0]))
tensor([0., 2.], dtype=float32)
>>> nn.ReLU6()(cr.tensor([-1.0, 8.0]))
tensor([0., 6.], dtype=float32)
>>> nn.LeakyReLU(0.1)(cr.tensor([-1.0, 2.0]))
tensor([-0.1,  2. ], dtype=float32)
>>> nn.ELU()(cr.tensor([-1.0, 2.0]))
tensor([-0.63212055,  2.        ], dtype=float32)
>>> nn.CELU(2.0)(cr.tensor([-1.0, 2.0]))
tensor([-0.78693867,  2.        ], dtype=float32)
>>> nn.SELU()(cr.tensor([-1.0, 2.0]))
tensor([-1.1113307,  2.101402 ], dtype=float32)
>>> nn.GELU("tanh")(cr.tensor([-1.0, 2.0]))
tensor([-0.15880801,  1.9545978 ], dtype=float32)
>>> nn.SiLU()(cr.tensor([-1.0, 2.0]))
tensor([-0.26894143,  1.7615943 ], dtype=float32)
>>> nn.Mish()(cr.tensor([-1.0, 2.0]))
tensor([-0.30340147,  1.9439588 ], dtype=float32)
>>> nn.Sigmoid()(cr.tensor([0.0, 2.0]))
tensor([0.5     , 0.880797], dtype=float32)
>>> nn.LogSigmoid()(cr.tensor([0.0, 2.0]))
tensor([-0.6931472, -0.126928 ], dtype=float32)
>>> nn.Hardsigmoid()(cr.tensor([-4.0, 1.5]))
tensor([0.  , 0.75], dtype=float32)
>>> nn.Hardswish()(cr.tensor([-4.0, 1.5]))
tensor([-0.   ,  1.125], dtype=float32)
>>> nn.Tanh()(cr.tensor([0.0, 1.0]))
tensor([0.       , 0.7615942], dtype=float32)
>>> nn.Hardtanh()(cr.tensor([-2.0, 0.5]))
tensor([-1. ,  0.5], dtype=float32)
>>> nn.Tanhshrink()(cr.tensor([0.0, 2.0]))
tensor([0.       , 1.0359724], dtype=float32)
>>> nn.Softplus()(cr.tensor([0.0, 100.0]))
tensor([  0.6931472, 100.       ], dtype=float32)
>>> nn.Softsign()(cr.tensor([-1.0, 3.0]))
tensor([-0.5 ,  0.75], dtype=float32)
>>> nn.Softshrink()(cr.tensor([-1.0, 0.3]))
tensor([-0.5,  0. ], dtype=float32)
>>> nn.Hardshrink()(cr.tensor([-1.0, 0.3]))
tensor([-1.,  0.], dtype=float32)
>>> nn.Threshold(1.0, 0.0)(cr.tensor([0.5, 2.0]))
tensor([0., 2.], dtype=float32)
>>> nn.GLU()(cr.tensor([1.0, 2.0, 0.0, 0.0]))
tensor([0.5, 1. ], dtype=float32)
>>> nn.Softmax(dim=-1)(cr.tensor([[0.0, 0.0]]))
tensor([[0.5, 0.5]], dtype=float32)
>>> nn.LogSoftmax(dim=-1)(cr.tensor([[0.0, 0.0]]))
tensor([[-0.6931472, -0.6931472]], dtype=float32)
>>> nn.Softmin(dim=-1)(cr.tensor([[0.0, 0.0]]))
tensor([[0.5, 0.5]], dtype=float32)
>>> nn.Softmax2d()(cr.ones((1, 4, 1, 2))).shape
(1, 4, 1, 2)
>>> nn.MSELoss()(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 4.0]))
tensor(2., dtype=float32)
>>> nn.L1Loss()(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 4.0]))
tensor(1., dtype=float32)
>>> nn.SmoothL1Loss()(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 4.0]))
tensor(0.75, dtype=float32)
>>> nn.HuberLoss()(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 4.0]))
tensor(0.75, dtype=float32)
>>> nn.CrossEntropyLoss()(cr.tensor([[0.0, 0.0], [0.0, 2.0]]), cr.tensor([0, 1]))
tensor(0.4100376, dtype=float32)
>>> nn.NLLLoss()(cr.log(cr.tensor([[0.5, 0.5], [0.1, 0.9]])), cr.tensor([0, 1]))
tensor(0.39925388, dtype=float32)
>>> nn.BCELoss()(cr.tensor([0.5, 0.9]), cr.tensor([0.0, 1.0]))
tensor(0.39925388, dtype=float32)
>>> nn.BCEWithLogitsLoss()(cr.tensor([0.0, 2.0]), cr.tensor([0.0, 1.0]))
tensor(0.41003758, dtype=float32)
>>> nn.KLDivLoss("batchmean")(cr.log(cr.tensor([[0.5, 0.5]])), cr.tensor([[0.25, 0.75]]))
tensor(0.13081202, dtype=float32)
>>> nn.PoissonNLLLoss()(cr.tensor([0.0]), cr.tensor([2.0]))
tensor(1., dtype=float32)
>>> nn.GaussianNLLLoss()(cr.tensor([1.0]), cr.tensor([3.0]), cr.tensor([4.0]))
tensor(1.1931472, dtype=float32)
>>> nn.HingeEmbeddingLoss()(cr.tensor([0.5, 0.5]), cr.tensor([1, -1]))
tensor(0.5, dtype=float32)
>>> nn.SoftMarginLoss()(cr.tensor([0.0, 0.0]), cr.tensor([1, -1]))
tensor(0.6931472, dtype=float32)
>>> nn.MultiLabelSoftMarginLoss()(cr.zeros((1, 2)), cr.tensor([[1.0, 0.0]]))
tensor(0.6931472, dtype=float32)
>>> nn.MultiMarginLoss()(cr.tensor([[0.0, 0.5]]), cr.tensor([0]))
tensor(0.75, dtype=float32)
>>> nn.MarginRankingLoss()(cr.tensor([1.0]), cr.tensor([3.0]), cr.tensor([1]))
tensor(2., dtype=float32)
>>> nn.CosineEmbeddingLoss()(cr.ones((1, 2)), cr.tensor([[1.0, 0.0]]), cr.tensor([1]))
tensor(0.29289323, dtype=float32)
>>> nn.TripletMarginLoss()(cr.zeros((1, 2)), cr.ones((1, 2)), cr.ones((1, 2)))
tensor(1.0000001, dtype=float32)
>>> nn.MultiLabelMarginLoss()(cr.tensor([[0.1, 0.2, 0.4]]), cr.tensor([[2, -1, 0]]))
tensor(0.5, dtype=float32)
>>> nn.TripletMarginWithDistanceLoss()(cr.zeros((1, 2)), cr.ones((1, 2)), cr.ones((1, 2)))
tensor(1.0000001, dtype=float32)
>>> nn.CTCLoss()(cr.zeros((4, 1, 3)), cr.tensor([[1, 2]]), cr.tensor([4]), cr.tensor([2])).shape
()
>>> nn.CosineSimilarity()(cr.tensor([[1.0, 0.0]]), cr.tensor([[1.0, 1.0]]))
tensor([0.70710677], dtype=float32)
>>> nn.PairwiseDistance()(cr.zeros((1, 2)), cr.tensor([[6.0, 8.0]])).shape
(1,)
>>> nn.Identity()(cr.tensor([1.0, 2.0]))
tensor([1., 2.], dtype=float32)
>>> nn.Flatten()(cr.ones((2, 3, 4))).shape
(2, 12)
>>> nn.Unflatten(1, (3, 4))(cr.ones((2, 12))).shape
(2, 3, 4)
>>> nn.PixelShuffle(2)(cr.ones((1, 8, 2, 3))).shape
(1, 2, 4, 6)
>>> nn.PixelUnshuffle(2)(cr.ones((1, 2, 4, 6))).shape
(1, 8, 2, 3)
>>> nn.ChannelShuffle(2)(cr.ones((1, 4, 3, 3))).shape
(1, 4, 3, 3)
>>> nn.Upsample(scale_factor=2)(cr.tensor([[[1.0, 2.0]]]))
tensor([[[1., 1., 2., 2.]]], dtype=float32)
>>> nn.UpsamplingNearest2d(scale_factor=2)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 6)
>>> nn.UpsamplingBilinear2d(scale_factor=2)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 6)
>>> nn.Unfold(2)(cr.ones((1, 2, 3, 3))).shape
(1, 8, 4)
>>> nn.Fold((3, 3), 2)(cr.ones((1, 8, 4))).shape
(1, 2, 3, 3)
>>> nn.ZeroPad1d(1)(cr.ones((1, 1, 2)))
tensor([[[0., 1., 1., 0.]]], dtype=float32)
>>> nn.ZeroPad2d(1)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 5)
>>> nn.ZeroPad3d(1)(cr.ones((1, 1, 2, 3, 4))).shape
(1, 1, 4, 5, 6)
>>> nn.ReflectionPad1d(1)(cr.tensor([[[1.0, 2.0, 3.0]]]))
tensor([[[2., 1., 2., 3., 2.]]], dtype=float32)
>>> nn.ReflectionPad2d(1)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 5)
>>> nn.ReflectionPad3d(1)(cr.ones((1, 1, 2, 3, 4))).shape
(1, 1, 4, 5, 6)
>>> nn.ReplicationPad1d(1)(cr.tensor([[[1.0, 2.0, 3.0]]]))
tensor([[[1., 1., 2., 3., 3.]]], dtype=float32)
>>> nn.ReplicationPad2d(1)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 5)
>>> nn.ReplicationPad3d(1)(cr.ones((1, 1, 2, 3, 4))).shape
(1, 1, 4, 5, 6)
>>> nn.CircularPad1d(1)(cr.tensor([[[1.0, 2.0, 3.0]]]))
tensor([[[3., 1., 2., 3., 1.]]], dtype=float32)
>>> nn.CircularPad2d(1)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 5)
>>> nn.CircularPad3d(1)(cr.ones((1, 1, 2, 3, 4))).shape
(1, 1, 4, 5, 6)
>>> nn.ConstantPad1d(1, 5.0)(cr.tensor([[[1.0, 2.0, 3.0]]]))
tensor([[[5., 1., 2., 3., 5.]]], dtype=float32)
>>> nn.ConstantPad2d(1, 5.0)(cr.ones((1, 1, 2, 3))).shape
(1, 1, 4, 5)
>>> nn.ConstantPad3d(1, 5.0)(cr.ones((1, 1, 2, 3, 4))).shape
(1, 1, 4, 5, 6)
>>> nn.MaxPool1d(2)(cr.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
tensor([[[3., 5.]]], dtype=float32)
>>> nn.MaxPool2d(2)(cr.ones((1, 3, 6, 8))).shape
(1, 3, 3, 4)
>>> nn.MaxPool3d(2)(cr.ones((1, 3, 4, 6, 8))).shape
(1, 3, 2, 3, 4)
>>> nn.AvgPool1d(2)(cr.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
tensor([[[2. , 3.5]]], dtype=float32)
>>> nn.AvgPool2d(2)(cr.ones((1, 3, 6, 8))).shape
(1, 3, 3, 4)
>>> nn.AvgPool3d(2)(cr.ones((1, 3, 4, 6, 8))).shape
(1, 3, 2, 3, 4)
>>> nn.LPPool1d(2.0, 2)(cr.tensor([[[3.0, 4.0, 0.0, 5.0]]]))
tensor([[[5., 5.]]], dtype=float32)
>>> nn.LPPool2d(2.0, 2)(cr.ones((1, 3, 6, 8))).shape
(1, 3, 3, 4)
>>> nn.LPPool3d(2.0, 2)(cr.ones((1, 3, 4, 6, 8))).shape
(1, 3, 2, 3, 4)
>>> nn.AdaptiveAvgPool1d(2)(cr.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
tensor([[[2. , 3.5]]], dtype=float32)
>>> nn.AdaptiveAvgPool2d(1)(cr.ones((1, 3, 6, 8))).shape
(1, 3, 1, 1)
>>> nn.AdaptiveAvgPool3d(1)(cr.ones((1, 3, 4, 6, 8))).shape
(1, 3, 1, 1, 1)
>>> nn.AdaptiveMaxPool1d(2)(cr.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
tensor([[[3., 5.]]], dtype=float32)
>>> nn.AdaptiveMaxPool2d(1)(cr.ones((1, 3, 6, 8))).shape
(1, 3, 1, 1)
>>> nn.AdaptiveMaxPool3d(1)(cr.ones((1, 3, 4, 6, 8))).shape
(1, 3, 1, 1, 1)
"""
)
"""By the module's name."""
