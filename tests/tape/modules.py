"""Correct programs that resemble real training code: libraries' layers, hooks, and writes in place that harm nothing."""

MODULES = {
    "complex": """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, dtype=torch.cfloat, requires_grad=True)
    (torch.fft.fft(w).abs() ** 2).sum().backward()
    return {"w": torch.view_as_real(w.grad)}
""",
    "rnn_lib": """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.GRU(3, 4, 2, batch_first=True, dropout=.2); o, h = m(torch.randn(2, 5, 3)); o[:, -1].sum().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
    "mha_lib": """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.TransformerEncoderLayer(8, 2, 16); m(torch.randn(4, 2, 8)).pow(2).mean().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
    "full_bw_hook": """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)), torch.randn(2, 3)
def run():
    net, x = make()
    seen = []
    net[1].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].norm()) or (gi[0] * 0.5,))
    net(x).sum().backward()
    return {"w": net[0].weight.grad}
""",
}
