"""The models that stepmark trains, in PyTorch: GPT-2, Llama and Qwen 3, with the names of their files' tensors."""

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn

CONV1D = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")  # kept as [in, out] on disk


# --- GPT-2 --------------------------------------------------------------------------------------


class GPT2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config["n_embd"]
        self.n_head = config["n_head"]
        self.c_attn = nn.Linear(C, 3 * C)
        self.c_proj = nn.Linear(C, C)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))  # (B, NH, T, HS)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class GPT2MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config["n_embd"]
        d_ff = config.get("n_inner") or 4 * C
        self.c_fc = nn.Linear(C, d_ff)
        self.c_proj = nn.Linear(d_ff, C)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GPT2Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        C, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.ln_1 = nn.LayerNorm(C, eps=eps)
        self.attn = GPT2Attention(config)
        self.ln_2 = nn.LayerNorm(C, eps=eps)
        self.mlp = GPT2MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """Tokens and targets (B, T) in, the mean loss out. The head is the token embedding."""

    def __init__(self, config):
        super().__init__()
        C = config["n_embd"]
        self.wte = nn.Embedding(config["vocab_size"], C)
        self.wpe = nn.Embedding(config["n_positions"], C)
        self.h = nn.ModuleList(GPT2Block(config) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(C, eps=config["layer_norm_epsilon"])

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    @staticmethod
    def sizes(config):
        return dict(
            n_ctx=config["n_positions"], n_layer=config["n_layer"], n_head=config["n_head"], d_model=config["n_embd"],
            d_ff=config.get("n_inner") or 4 * config["n_embd"],
        )

    @staticmethod
    def is_transposed(name):
        return name.endswith(".weight") and any(f".{stem}." in name for stem in CONV1D)


# --- Llama and Qwen 3 --------------------------------------------------------------------------------------


def head_size(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def rotary(config, T, device):
    """cos and sin (T, HS) of Hugging Face's half-split convention: channels i and i + HS/2 turn together."""
    HS = head_size(config)
    rates = config.get("rope_theta", 1e4) ** (-torch.arange(0, HS, 2, dtype=torch.float32, device=device) / HS)
    angles = torch.outer(torch.arange(T, dtype=torch.float32, device=device), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def turn(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config["hidden_size"]
        self.n_head = config["num_attention_heads"]
        self.n_kv_head = config.get("num_key_value_heads") or self.n_head
        self.head_size = HS = head_size(config)
        self.q_proj = nn.Linear(C, self.n_head * HS, bias=False)
        self.k_proj = nn.Linear(C, self.n_kv_head * HS, bias=False)
        self.v_proj = nn.Linear(C, self.n_kv_head * HS, bias=False)
        self.o_proj = nn.Linear(self.n_head * HS, C, bias=False)
        if config["model_type"] == "qwen3":
            self.q_norm = nn.RMSNorm(HS, eps=config["rms_norm_eps"])
            self.k_norm = nn.RMSNorm(HS, eps=config["rms_norm_eps"])
        else:
            self.q_norm = self.k_norm = nn.Identity()

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        HS = self.head_size
        q = turn(self.q_norm(self.q_proj(x).view(B, T, self.n_head, HS)).transpose(1, 2), cos, sin)
        k = turn(self.k_norm(self.k_proj(x).view(B, T, self.n_kv_head, HS)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(B, T, self.n_kv_head, HS).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.n_kv_head != self.n_head)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, self.n_head * HS))


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        C, d_ff = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(C, d_ff, bias=False)
        self.up_proj = nn.Linear(C, d_ff, bias=False)
        self.down_proj = nn.Linear(d_ff, C, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        C, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = nn.RMSNorm(C, eps=eps)
        self.self_attn = LlamaAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(C, eps=eps)
        self.mlp = LlamaMLP(config)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Tokens and targets (B, T) in, the mean loss out."""

    def __init__(self, config):
        super().__init__()
        C = config["hidden_size"]
        self.config = config
        self.embed_tokens = nn.Embedding(config["vocab_size"], C)
        self.layers = nn.ModuleList(LlamaBlock(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(C, eps=config["rms_norm_eps"])
        self.lm_head = None if config.get("tie_word_embeddings") else nn.Linear(C, config["vocab_size"], bias=False)

    def forward(self, tokens, targets):
        x = self.embed_tokens(tokens)
        cos, sin = rotary(self.config, tokens.shape[1], tokens.device)
        for layer in self.layers:
            x = layer(x, cos, sin)
        head = self.embed_tokens if self.lm_head is None else self.lm_head
        logits = F.linear(self.norm(x), head.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    @staticmethod
    def sizes(config):
        return dict(
            n_ctx=config["max_position_embeddings"], n_layer=config["num_hidden_layers"],
            n_head=config["num_attention_heads"], d_model=config["hidden_size"], d_ff=config["intermediate_size"],
        )

    @staticmethod
    def is_transposed(name):
        return False


# --- either -------------------------------------------------------------------------------------

MODELS = {"gpt2": GPT2, "llama": Llama, "qwen3": Llama}
PREFIXES = ("transformer.", "model.")  # of names in a file


def bare(name):
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def model_class(config):
    return MODELS[config["model_type"]]


def load_model(folder, config):
    """The parameters are made without initial values and filled from the file, one at a time."""
    with torch.device("meta"):
        model = model_class(config)(config)
    model.to_empty(device="cpu")
    with safe_open(folder / "model.safetensors", framework="pt") as file, torch.no_grad():
        names = {bare(name): name for name in file.keys()}
        for name, parameter in model.named_parameters():
            tensor = file.get_tensor(names[name])
            parameter.copy_(tensor.T if model.is_transposed(name) else tensor)
    return model.train()
