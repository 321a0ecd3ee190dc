"""User-defined PyTorch functions, and slips in their backwards; see `repair_cases.py`."""

from __future__ import annotations

OPS: dict[str, str] = {
    "linear": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x @ w.t() + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        dx = g @ w
        dw = g.t() @ x
        db = g.sum(0)
        return dx, dw, db
""",
    "layernorm": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        mu = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)
        rstd = torch.rsqrt(var + eps)
        xhat = (x - mu) * rstd
        ctx.save_for_backward(xhat, rstd, w)
        return xhat * w + b

    @staticmethod
    def backward(ctx, grad_out):
        xhat, rstd, w = ctx.saved_tensors
        dims = tuple(range(grad_out.dim() - 1))
        dw = (grad_out * xhat).sum(dims)
        db = grad_out.sum(dims)
        gh = grad_out * w
        m1 = gh.mean(-1, keepdim=True)
        m2 = (gh * xhat).mean(-1, keepdim=True)
        dx = rstd * (gh - m1 - xhat * m2)
        return dx, dw, db, None
""",
    "attention": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scale = q.shape[-1] ** -0.5
        p = torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        dv = p.transpose(-2, -1) @ do
        dp = do @ v.transpose(-2, -1)
        ds = p * (dp - (dp * p).sum(dim=-1, keepdim=True))
        dq = ds @ k * ctx.scale
        dk = ds.transpose(-2, -1) @ q * ctx.scale
        return dq, dk, dv
""",
    "relu_save": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clamp(min=0)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gx = g.clone()
        gx[x <= 0] = 0
        return gx
""",
    "masked": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        r = torch.relu(x)
        ctx.save_for_backward(r)
        return r * r

    @staticmethod
    def backward(ctx, g):
        (r,) = ctx.saved_tensors
        g = g.mul(2 * r)
        return g
""",
    "conv": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.nn.functional.conv1d(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        dx = torch.nn.grad.conv1d_input(x.shape, w, g)
        dw = torch.nn.grad.conv1d_weight(x, w.shape, g)
        return dx, dw
""",
    "ce": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, t):
        p = torch.softmax(z, dim=1)
        ctx.save_for_backward(p, t)
        return -torch.log(p[torch.arange(z.shape[0]), t]).mean()

    @staticmethod
    def backward(ctx, g):
        p, t = ctx.saved_tensors
        d = p.clone()
        d[torch.arange(p.shape[0]), t] -= 1
        return g * d / p.shape[0], None
""",
    "swish": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))
""",
    "bias_scale": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return torch.tanh(x) * a[:, None]

    @staticmethod
    def backward(ctx, g):
        x, a = ctx.saved_tensors
        t = torch.tanh(x)
        return g * a[:, None] * (1 - t * t), (g * t).sum(dim=1)
""",
    "solve": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        lu, pivots = torch.linalg.lu_factor(a)
        x = torch.linalg.lu_solve(lu, pivots, b)
        ctx.save_for_backward(lu, pivots, x)
        return x

    @staticmethod
    def backward(ctx, g):
        lu, pivots, x = ctx.saved_tensors
        db = torch.linalg.lu_solve(lu, pivots, g, adjoint=True)
        da = -db @ x.mT
        return da, db
""",
    "lower": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        low = torch.tril(a) + 3 * torch.eye(a.shape[-1], dtype=a.dtype)
        x = torch.linalg.solve_triangular(low, b, upper=False)
        ctx.save_for_backward(low, x)
        return x

    @staticmethod
    def backward(ctx, g):
        low, x = ctx.saved_tensors
        db = torch.linalg.solve_triangular(low.mT, g, upper=True)
        return torch.tril(-db @ x.mT), db
""",
}
SHAPES: dict[str, list[tuple[int, ...] | float]] = {
    "linear": [(4, 3), (5, 3), (5,)],
    "layernorm": [(2, 3, 5), (5,), (5,), 1e-5],
    "attention": [(2, 4, 3), (2, 5, 3), (2, 5, 4)],
    "relu_save": [(4, 5)],
    "masked": [(4, 5)],
    "conv": [(2, 3, 7), (4, 3, 3)],
    "ce": [(4, 3), (4,)],
    "swish": [(3, 4)],
    "bias_scale": [(3, 4), (3,)],
    "solve": [(4, 4), (4, 3)],
    "lower": [(4, 4), (4, 3)],
}
SLIPS: list[tuple[str, str, str]] = [
    ("linear", "dx = g @ w", "dx = g @ w / 3"),
    ("linear", "dw = g.t() @ x", "dw = x.t() @ g"),
    ("linear", "g.sum(0)", "g.mean(0)"),
    ("linear", "dx, dw, db", "dx, dw, None"),
    ("linear", "dx, dw, db", "dx, -dw, db"),
    ("linear", "dw = g.t() @ x", "dw = torch.ones_like(g).t() @ x"),
    ("layernorm", "- m1 - xhat * m2", "- xhat * m2"),
    ("layernorm", "- m1 - xhat * m2", "- m1"),
    ("layernorm", "- m1 - xhat * m2", ""),
    ("layernorm", "gh = grad_out * w", "gh = grad_out"),
    ("layernorm", "(grad_out * xhat).sum(dims)", "grad_out.sum(dims)"),
    ("layernorm", "rstd * (gh", "(gh"),
    ("layernorm", ".mean(-1, keepdim=True)\n        m2", ".mean(0, keepdim=True)\n        m2"),
    ("layernorm", "(gh * xhat).mean", "(gh * xhat).sum"),
    ("layernorm", "range(grad_out.dim() - 1)", "range(1)"),
    ("attention", "q * ctx.scale", "q"),
    ("attention", "q * ctx.scale", "q * ctx.scale ** 2"),
    ("attention", "(dp - (dp * p).sum(dim=-1, keepdim=True))", "dp"),
    ("attention", "sum(dim=-1", "sum(dim=-2"),
    ("attention", "p.transpose(-2, -1) @ do", "p @ do"),
    ("attention", "dq, dk, dv", "dk, dq, dv"),
    ("relu_save", "x <= 0", "x >= 0"),
    ("relu_save", "gx = g.clone()", "gx = g"),
    ("relu_save", "gx[x <= 0] = 0", "gx[x <= 0] = 0\n        gx = gx.sum() * (x > 0)"),
    ("conv", "return dx, dw", "return dx, 2 * dw"),
    ("conv", "return dx, dw", "return dx, None"),
    ("conv", "return dx, dw", "return -dx, dw"),
    ("ce", "g * d / p.shape[0]", "g * d"),
    ("ce", "g * d / p.shape[0]", "d / p.shape[0]"),
    ("ce", "-= 1", "-= 2"),
    ("ce", "g * d / p.shape[0]", "g * d / p.shape[1]"),
    ("swish", "(1 - s)", "s"),
    ("swish", "s + x", "s - x"),
    ("swish", "s + x * s * (1 - s)", "s"),
    ("swish", "s + x * s * (1 - s)", "x * s * (1 - s)"),
    ("bias_scale", "(1 - t * t)", "(1 - t)"),
    ("bias_scale", "a[:, None]", "a[None, :1]"),
    ("bias_scale", "sum(dim=1)", "sum(dim=0)"),
    ("bias_scale", "(g * t)", "(g * x)"),
]
