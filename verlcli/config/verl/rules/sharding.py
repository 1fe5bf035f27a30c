"""Rules about how training divides its GPUs: sequence, tensor, pipeline, context and expert parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import (
    ACTOR,
    GPUS,
    MODEL,
    NODES,
    ROOTS,
    divisors,
    expect_fsdp,
    fsdp_key,
    heads_fit,
    listed,
    sequence_parallel,
    shape_at,
    size,
    split_of,
    trained,
)
from verlcli.config.verl.run import VerlRun


@rule(engines=("dp", "megatron", "veomni"))
def training_divides_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL204: the trainer's parallel sizes do not divide its GPUs.

    Why: sequence parallelism (FSDP), or tensor × pipeline × context parallelism (Megatron), takes that many GPUs for
        one copy of the data. When a rest stays, the process groups cannot be built and the workers stop at their
        start. verl's own check covers Megatron without use_dynamic_bsz only.
    Example: actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=3 on 8 GPUs
    Instead: actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2
    Source: verl/workers/engine/fsdp/transformer_impl.py, verl/utils/config.py
    """
    reported: set[str] = set()
    for role in trained(run):
        split = split_of(run, role)
        # Roles that take the actor's sizes have nothing of their own to change.
        if run.gpus % split.size == 0 or (reported and not any(run.is_set(key) for key in split.keys)):
            continue
        reported.update(split.keys)
        others = split.size // split.factors[0]
        filling = [number for number in divisors(run.gpus) if run.gpus % (number * others) == 0]
        good = good_values(run, "VRL204", split.keys[0], filling) or filling
        product = " × ".join(map(str, split.factors)) + f" = {split.size}" if len(split.factors) > 1 else split.size
        yield Verdict(
            "VRL204",
            (*split.keys, GPUS, NODES),
            f"the {role} takes {product} GPUs for one copy of the data, which does not divide the {run.gpus} GPUs",
            f"set {run.name(split.keys[0])} to {listed(good)}" if good else f"lower {run.name(split.keys[-1])}",
        )


@rule(engines=("dp",))
def copies_divide_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL204: fsdp_size does not divide the trainer's GPUs.

    Why: fsdp_size GPUs hold one copy of the weights, and verl lays GPUs // fsdp_size copies side by side. A rest
        belongs to no copy, and its workers stop when they build the model. -1 makes one copy of all GPUs.
    Example: actor_rollout_ref.actor.fsdp_config.fsdp_size=3 on 8 GPUs
    Instead: actor_rollout_ref.actor.fsdp_config.fsdp_size=4, or -1
    Source: verl/workers/engine/fsdp/utils.py
    """
    expect_fsdp(run)
    for role in trained(run):
        key = fsdp_key(run, role, "fsdp_size")
        if not run.has(key) or run.get(key) is None or (role != "actor" and not run.is_set(key)):
            continue
        shards, gpus = run.integer(key), run.gpus
        if 0 < shards < gpus and gpus % shards:
            yield Verdict(
                "VRL204",
                (key, GPUS, NODES),
                f"{run.shown(key)} makes {gpus // shards} copies of {shards} GPUs and leaves {gpus % shards} of {gpus}",
                f"set it to -1 for one copy of all, or to {listed(divisors(gpus)[:-1])}",
            )


@rule(engines=("megatron",))
def interleaved_stages_have_a_pipeline(run: VerlRun) -> Iterator[Verdict]:
    """VRL204: virtual pipeline stages without a pipeline.

    Why: they interleave the stages of a pipeline, so Megatron refuses them with a pipeline of one GPU when it builds
        its process groups.
    Example: actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=2, pipeline_model_parallel_size=1
    Instead: actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2, or leave the virtual one out
    Source: Megatron-LM, core/parallel_state.py; verl/workers/engine/megatron/transformer_impl.py
    """
    for role in trained(run):
        parts = (f"{ROOTS[role]}.megatron.{name}pipeline_model_parallel_size" for name in ("virtual_", ""))
        virtual, pipeline = parts
        if run.is_set(virtual) and run.get(virtual) is not None and size(run, pipeline) == 1:
            message = f"{run.shown(virtual)} interleaves stages of a pipeline, and {run.shown(pipeline)}"
            advice = f"set {run.name(pipeline)} to 2 or more, or remove {run.name(virtual)}"
            yield Verdict("VRL204", (virtual, pipeline), message, advice)


@rule(engines=("megatron",))
def experts_divide_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL204: expert parallelism of the trainer does not divide its GPUs.

    Why: Megatron lays experts over expert × expert-tensor × pipeline parallel GPUs (expert-tensor: as tensor
        parallelism when unset), and stops when that does not divide the GPUs of the run.
    Example: actor_rollout_ref.actor.megatron.expert_model_parallel_size=3 on 8 GPUs
    Instead: actor_rollout_ref.actor.megatron.expert_model_parallel_size=4
    Source: Megatron-LM, core/parallel_state.py
    """
    root = f"{ACTOR}.megatron"
    ep_key, etp_key = f"{root}.expert_model_parallel_size", f"{root}.expert_tensor_parallel_size"
    ep = size(run, ep_key)
    if ep == 1:
        return
    etp = size(run, f"{root}.tensor_model_parallel_size") if run.get(etp_key) is None else size(run, etp_key)
    pp = size(run, f"{root}.pipeline_model_parallel_size")
    if run.gpus % (ep * etp * pp):
        filling = [number for number in divisors(run.gpus) if run.gpus % (number * etp * pp) == 0] or [1]
        good = good_values(run, "VRL204", ep_key, filling) or filling
        alone = etp > 1 and run.gpus % (ep * pp) == 0
        yield Verdict(
            "VRL204",
            (ep_key, etp_key, GPUS, NODES),
            f"experts take {ep} expert × {etp} tensor × {pp} pipeline = {ep * etp * pp} GPUs,"
            f" which does not divide the {run.gpus} GPUs",
            f"set {run.name(etp_key)}=1" if alone else f"set {run.name(ep_key)} to {listed(good)}",
        )


@rule(engines=("dp",))
def heads_fit_sequence_parallelism(run: VerlRun) -> Iterator[Verdict]:
    """VRL204: sequence parallelism does not divide the model's heads.

    Why: Ulysses gives each rank an equal share of the attention heads, and of the key-value heads or whole copies of
        them; the worker asserts it when it builds the model.
    Example: actor_rollout_ref.actor.ulysses_sequence_parallel_size=8 with a model of 28 heads
    Instead: actor_rollout_ref.actor.ulysses_sequence_parallel_size=4
    Source: verl/models/transformers/monkey_patch.py; verl issue 1226
    """
    for role in trained(run):
        key, ranks = sequence_parallel(run, role)
        # A size that does not divide the GPUs is reported as such.
        if ranks == 1 or run.gpus % ranks or (role == "ref" and not run.is_set(key)):
            continue
        shape = shape_at(run, "critic.model.path" if role == "critic" else f"{MODEL}.path")
        if not heads_fit(shape, ranks):
            heads = f"{shape.num_attention_heads} attention and {shape.num_key_value_heads} key-value heads"
            fitting = [number for number in divisors(run.gpus) if heads_fit(shape, number)]
            good = good_values(run, "VRL204", key, fitting) or fitting
            yield Verdict(
                "VRL204",
                (key,),
                f"{run.shown(key)} does not divide the model's {heads}",
                f"set it to {listed(good)}",
            )


@rule(engines=("dp",))
def sequence_parallelism_packs(run: VerlRun) -> Iterator[Verdict]:
    """VRL205: sequence parallelism without use_remove_padding.

    Why: Ulysses splits packed sequences; with padded ones the worker refuses to start, and older versions computed
        wrong values or hung. verl's own check looks at the older key alone.
    Example: actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2 with model.use_remove_padding=False
    Instead: actor_rollout_ref.model.use_remove_padding=True
    Source: verl/workers/engine/fsdp/transformer_impl.py; verl pull request 674
    """
    for role in trained(run):
        key, ranks = sequence_parallel(run, role)
        packing = "critic.model.use_remove_padding" if role == "critic" else f"{MODEL}.use_remove_padding"
        # The reference policy follows the actor's older key and shares its model section.
        if ranks == 1 or run.flag(packing) or (role == "ref" and not run.is_set(key)):
            continue
        yield Verdict(
            "VRL205",
            (packing, key),
            f"{run.shown(key)} splits packed sequences, and {run.shown(packing)}",
            f"set {run.name(packing)}=True, or {run.name(key)}=1",
            fix=Fix("set", packing, True),
        )


RULES: tuple[VerlRule, ...] = (
    training_divides_the_gpus,
    copies_divide_the_gpus,
    interleaved_stages_have_a_pipeline,
    experts_divide_the_gpus,
    heads_fit_sequence_parallelism,
    sequence_parallelism_packs,
)
