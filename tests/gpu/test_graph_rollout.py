"""The graph engine on a GPU: its kernels and graphs against transformers, and the distribution it draws from."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from verlcli.engine.memory import peak_memory_gib  # noqa: E402
from verlcli.engine.rollout import GraphRollout, Sampling  # noqa: E402
from verlcli.engine.rollout.graph.lent import LentMemory  # noqa: E402
from verlcli.engine.rollout.graph.support import why_not  # noqa: E402
from verlcli.engine.rollout.room import generate_with_room  # noqa: E402

pytestmark = pytest.mark.gpu
PROMPTS = [[5, 6, 7] * 9, [8, 9, 10, 11, 12, 13], [14], list(range(20, 200))]


def random_model(family: str, dtype: Any = torch.float32, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    settings = {
        "vocab_size": 9000,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "sliding_window": None,
        "pad_token_id": 0,
    } | changes
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)).cuda().to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def graph(model: Any, **changes: Any) -> GraphRollout:
    return GraphRollout(model, **({"eos_ids": [2], "pad_id": 0} | changes))


def assert_greedy(model: Any, rollout: Any) -> None:
    """Every token is the model's own choice, or within rounding of it, and has the model's log-prob."""
    ids = torch.cat([rollout.prompt_ids, rollout.tokens], 1)
    mask = torch.cat([rollout.prompt_mask, rollout.mask.long()], 1)
    width = rollout.tokens.shape[1]
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp_min(0)).logits[
            :, -width - 1 : -1
        ]
    own = logits.float().log_softmax(-1)
    drawn = own.gather(-1, rollout.tokens[..., None]).squeeze(-1)
    assert ((own.amax(-1) - drawn) * rollout.mask).max() < 1e-3
    assert ((drawn - rollout.logprobs) * rollout.mask).abs().max() < 1e-3


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "phi3", "gemma", "olmo2"])
def test_greedy_tokens_are_those_of_transformers_at_growing_lengths(family: str) -> None:
    model = random_model(family, **({"head_dim": 64} if family in ("qwen3", "gemma") else {}))
    engine = graph(model)
    assert why_not(engine, model, 512) is None
    for length in (1, 40, 200):
        assert_greedy(model, engine.generate(PROMPTS, 2, Sampling(length, temperature=0.0)))


def test_many_query_heads_and_odd_head_sizes() -> None:
    for heads, kv_heads, width in ((14, 2, 64), (8, 8, 80), (20, 1, 96)):
        shape = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": width}
        model = random_model("llama", hidden_size=heads * 16, **shape)
        assert_greedy(model, graph(model).generate(PROMPTS, 1, Sampling(30, temperature=0.0)))


def test_tokens_are_drawn_with_their_probabilities() -> None:
    model = random_model("llama")
    count, waves = 8192, 8
    drawn = torch.cat(
        [graph(model).generate([[5, 6, 7]], count, Sampling(1, min_tokens=1)).tokens[:, 0] for _ in range(waves)]
    )
    judge(model, [5, 6, 7], drawn)


def test_tokens_of_the_graph_are_drawn_with_their_probabilities() -> None:
    model = random_model("llama")
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([[5, 6]], device="cuda")).last_hidden_state[0, -1]
        model.lm_head.weight[7] = 10 * hidden / hidden.square().sum()  # a token that comes first in most samples
    tokens = torch.cat([graph(model).generate([[5, 6]], 8192, Sampling(2, min_tokens=2)).tokens for _ in range(12)])
    first, times = tokens[:, 0].unique(return_counts=True)
    likeliest = int(first[times.argmax()])
    drawn = tokens[tokens[:, 0] == likeliest, 1]
    assert len(drawn) > 8000
    judge(model, [5, 6, likeliest], drawn)


def test_min_tokens_holds_where_the_nucleus_would_be_end_tokens_alone() -> None:
    model = random_model("llama")
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([[5, 6, 7]], device="cuda")).last_hidden_state[0, -1]
        model.lm_head.weight[2] = 20 * hidden / hidden.square().sum()
    rollout = graph(model).generate([[5, 6, 7]], 64, Sampling(12, min_tokens=8, top_p=0.5))
    assert (rollout.tokens[:, :8] != 2).all()
    assert rollout.logprobs.isfinite().all()


def test_what_cannot_be_captured_leaves_the_process_whole() -> None:
    config = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}
    model = random_model("llama", **config)
    assert "changes with" in str(why_not(graph(model), model, 64))
    with pytest.raises(RuntimeError):
        graph(model).generate(PROMPTS, 1, Sampling(4))
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert_greedy(random_model("llama"), graph(random_model("llama")).generate(PROMPTS, 1, Sampling(8, temperature=0)))


def test_bf16_stays_near_its_own_forward_pass() -> None:
    model = random_model("llama", torch.bfloat16)
    assert why_not(graph(model), model, 512) is None


def judge(model: Any, context: list[int], drawn: Any) -> None:
    """Compare `drawn`, tokens after `context`, with the model's own probabilities."""
    with torch.no_grad():
        z = model(input_ids=torch.tensor([context], device="cuda")).logits[0, -1].float()
    z[2] = float("-inf")
    expected = z.softmax(-1).double() * len(drawn)
    seen = torch.bincount(drawn, minlength=9000).double()
    # Chi-square over 200 groups of tokens of about equal probability: its 99.99th percentile is 279.
    order = expected.argsort()
    group = (expected[order].cumsum(0) / expected.sum() * 200).long().clamp_max(199)
    sums = torch.zeros(2, 200, dtype=torch.float64, device="cuda")
    sums[0].index_add_(0, group, expected[order])
    sums[1].index_add_(0, group, seen[order])
    sums = sums[:, sums[0] > 0]
    assert ((sums[1] - sums[0]).square() / sums[0]).sum() < 279
    assert seen[2] == 0


def test_what_is_drawn_does_not_depend_on_batching_or_on_dropped_rows() -> None:
    model = random_model("llama")
    torch.manual_seed(1)
    whole = graph(model).generate(PROMPTS, 64, Sampling(40, temperature=0.9, top_k=50, top_p=0.9))
    torch.manual_seed(1)
    parts = graph(model, batch_size=64).generate(PROMPTS, 64, Sampling(40, temperature=0.9, top_k=50, top_p=0.9))
    # Another batch size takes other matrix kernels, and a rounding error decides a draw now and then.
    assert (whole.tokens == parts.tokens).all(-1).float().mean() > 0.98
    lengths = torch.tensor([40 if i % 16 == 0 else 1 + i % 9 for i in range(256)])
    torch.manual_seed(1)
    alone = graph(model).generate(PROMPTS, 64, Sampling(40, min_tokens=40))
    torch.manual_seed(1)
    mixed = graph(model).generate(PROMPTS, 64, Sampling(40, min_tokens=40), lengths=lengths)
    assert mixed.mask.sum(-1).cpu().equal(lengths)
    long = lengths == 40
    assert (mixed.tokens[long] == alone.tokens[long]).all(-1).float().mean() > 0.9


def test_few_rows_serve_many_sequences() -> None:
    model = random_model("llama")
    torch.manual_seed(1)
    whole = graph(model).generate(PROMPTS, 16, Sampling(30))
    engine = graph(model)
    engine._decoder._batch_size = 24  # rows are taken over by waiting sequences
    torch.manual_seed(1)
    queued = engine.generate(PROMPTS, 16, Sampling(30))
    assert queued.tokens.equal(whole.tokens)


def test_a_cache_in_host_memory_gives_the_same_tokens() -> None:
    model = random_model("llama")
    sampling = Sampling(60, temperature=0.0)
    here = graph(model).generate(PROMPTS, 2, sampling)
    engine = graph(model, host_share=0.6)
    there = engine.generate(PROMPTS, 2, sampling)
    assert there.tokens.equal(here.tokens)
    assert engine._decoder.pool._host_layers == 2


def test_new_weights_and_adapters_are_seen_at_once() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(random_model("llama"), peft.LoraConfig(r=4, target_modules="all-linear"))
    engine, sampling = graph(model), Sampling(12, temperature=0.0)
    before = engine.generate(PROMPTS, 1, sampling).tokens
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    after = engine.generate(PROMPTS, 1, sampling)
    assert not after.tokens.equal(before)
    assert_greedy(model, after)


def test_sleep_gives_the_memory_back_and_keeps_the_graphs() -> None:
    model = random_model("llama")
    engine, sampling = graph(model), Sampling(200, temperature=0.0)
    first = engine.generate(PROMPTS, 64, sampling).tokens
    pool, graphs = engine._decoder.pool, dict(engine._decoder._graphs)
    size = pool.bytes
    assert size > pool.bytes_per_token * 64 * 4 * 200 / 2
    torch.cuda.empty_cache()
    before, peak = torch.cuda.mem_get_info()[0], peak_memory_gib("cuda")
    engine.sleep()
    assert pool.bytes == 0
    assert torch.cuda.mem_get_info()[0] >= before + 0.9 * size
    taken = torch.full((size,), 255, dtype=torch.uint8, device="cuda")  # NaN, where it is the pool's memory again
    del taken
    torch.cuda.empty_cache()
    assert engine.generate(PROMPTS, 64, sampling).tokens.equal(first)
    assert pool.bytes == size
    assert engine._decoder._graphs == graphs
    assert peak_memory_gib("cuda") >= peak


def test_memory_beside_torchs_allocator_counts_in_the_peak() -> None:
    before, size = peak_memory_gib("cuda"), 2**30 + int(peak_memory_gib("cuda") * 2**30)
    memory = LentMemory(size, torch.device("cuda"))
    memory.take()
    memory.give_back()
    assert peak_memory_gib("cuda") >= size / 2**30 > before
    assert memory.held == 0


def test_generation_that_runs_out_of_memory_is_repeated_with_half_the_rows() -> None:
    model = random_model("llama")
    engine, sampling = graph(model), Sampling(100)
    torch.manual_seed(0)
    whole = engine.generate(PROMPTS, 16, sampling)
    engine.sleep()
    tight, notices = graph(model), list[str]()
    reserve, rows = tight._decoder.pool.reserve, list[int]()

    def fails_once(*arguments: Any, **named: Any) -> int:
        rows.append(reserve(*arguments, **named))
        if len(rows) == 1:
            torch.empty(2**50, dtype=torch.uint8, device="cuda")
        return rows[-1]

    tight._decoder.pool.reserve = fails_once
    torch.manual_seed(0)
    again = generate_with_room(tight, PROMPTS, 16, sampling, on_notice=notices.append)
    assert len(notices) == 1
    assert rows[1] * 2 <= 64
    # Another number of rows takes other matrix kernels, and a rounding error decides a draw now and then.
    assert (again.tokens == whole.tokens).all(-1).float().mean() > 0.9
