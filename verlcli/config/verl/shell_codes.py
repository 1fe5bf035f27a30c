"""Codes of what can be wrong with a launch script as such, and the explanation of each."""

from __future__ import annotations

# kind of a ShellFinding -> code
SHELL_CODES = {
    "unset": "VRL301",
    "empty": "VRL302",
    "arithmetic_zero": "VRL303",
    "division_by_zero": "VRL304",
    "continuation": "VRL305",
    "missing_continuation": "VRL306",
    "spaces_around_equals": "VRL307",
    "tee_hides_status": "VRL308",
    "crlf": "VRL309",
    "unquoted_glob": "VRL310",
    "unquoted_list": "VRL311",
    "smart_quotes": "VRL312",
    "nonascii_dash": "VRL313",
    "bom": "VRL314",
    "syntax": "VRL315",
    "sourced": "VRL316",
    "unknown_world_limit": "VRL317",
    "bad_substitution": "VRL318",
    "prompt": "VRL328",
    "first_element": "VRL329",
    "host_array": "VRL341",
}
OTHER = "VRL319"

# code -> explanation, in the form of a rule's docstring
SHELL_TEXTS = {
    "VRL301": """VRL301: a variable has no value where the launch uses it.

    Why: bash puts nothing in its place and goes on. The key becomes empty, or a path loses its beginning; verl then
        stops with a message about the value, or loads something else.
    Example: actor_rollout_ref.model.path=$MODEL_PTH, where only MODEL_PATH is set
    Instead: ${MODEL_PATH:?set MODEL_PATH}, which stops the script with that message, or a default: ${MODEL_PATH:-NAME}
    Source: Bash manual, shell parameter expansion
    """,
    "VRL302": """VRL302: a key gets an empty value.

    Why: verl receives an empty text, which is not the same as leaving the key out: no default takes its place.
    Example: trainer.project_name=
    Instead: a value, or null where verl allows it, or no override at all
    Source: Hydra's override grammar
    """,
    "VRL303": """VRL303: arithmetic of bash cuts off a remainder.

    Why: bash knows whole numbers only. 10 / 4 is 2, and 1 / 8 is 0; a batch size of 0 stops the run, one that is too
        small changes it.
    Example: batch=$((64 / 5))
    Instead: numbers that divide, or rounding up: $(((a + b - 1) / b))
    Source: Bash manual, shell arithmetic
    """,
    "VRL304": """VRL304: arithmetic of bash divides by zero.

    Why: bash prints "division by 0" and skips the command. The variable keeps its old value, or stays empty.
    Example: $((batch / GPUS)), where GPUS is not set
    Instead: set the divisor before this line
    Source: Bash manual, shell arithmetic
    """,
    "VRL305": """VRL305: the launch ends early, and the overrides below it are lost.

    Why: a backslash continues a line only as its very last character. After a space behind it, or at a comment or an
        empty line between, bash starts the launch with what it has; the rest becomes commands of its own that fail.
    Example: a line that ends in a backslash and a space
    Instead: the backslash last on its line, comments above the launch or in an array of overrides
    Source: Bash manual, escape character
    """,
    "VRL306": """VRL306: overrides stand alone below the launch, for want of a backslash.

    Why: bash runs each line as a command of its own, and says "command not found" after the training has already
        started, or has ended, without these settings.
    Example: a last line such as trainer.total_epochs=15 below a line without a backslash
    Instead: a backslash at the end of the line before
    Source: Bash manual, escape character
    """,
    "VRL307": """VRL307: there are spaces around an equals sign.

    Why: in an assignment bash takes the name for a command. In a launch Hydra gets three words, of which none is an
        override.
    Example: LR = 1e-6, or trainer.nnodes = 2
    Instead: LR=1e-6, trainer.nnodes=2
    Source: Bash manual, shell parameters; Hydra's override grammar
    """,
    "VRL308": """VRL308: the output goes through tee, which hides that the training failed.

    Why: a pipeline ends with the status of its last command. tee nearly always succeeds, so that a crashed training
        counts as done for `set -e`, `&&` and the scheduler.
    Example: python3 -m verl.trainer.main_ppo ... 2>&1 | tee train.log
    Instead: set -o pipefail near the top of the script
    Source: Bash manual, pipelines
    """,
    "VRL309": """VRL309: the script has line ends of Windows.

    Why: bash sees a carriage return at the end of each line: backslashes no longer continue it, and values get an
        invisible character at their end.
    Example: a script that was saved by an editor on Windows
    Instead: sed -i 's/\\r$//' run.sh
    Source: Bash manual, quoting
    """,
    "VRL310": """VRL310: a value without quotes is a pattern to bash, and patterns without a file are dropped.

    Why: [a,b] and * stand for the names of files. After `shopt -s nullglob` bash leaves a word out that fits no file:
        the override never reaches verl. After `shopt -s failglob` the launch does not start.
    Example: shopt -s nullglob above actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer]
    Instead: single quotes around the whole word
    Source: Bash manual, filename expansion
    """,
    "VRL311": """VRL311: bash takes the quotes inside a list away.

    Why: quotes that nobody quotes are for bash. Hydra receives the bare words, which is the same for plain names, where
        nothing is said, and something else for texts with commas or colons, and for numbers that are meant as text.
    Example: trainer.logger=["console","1"]
    Instead: trainer.logger='["console","1"]'
    Source: Bash manual, quoting
    """,
    "VRL312": """VRL312: typographic quotes stand where plain ones are meant.

    Why: to bash they are letters like others. The value gets them as part of its text.
    Example: “console”, copied from a web page or a text document
    Instead: "console"
    Source: Bash manual, quoting
    """,
    "VRL313": """VRL313: a dash of typography stands where a hyphen is meant.

    Why: to bash it is a letter: an option is not recognised, and a number is no number.
    Example: –m verl.trainer.main_ppo, copied from a web page
    Instead: -m verl.trainer.main_ppo
    Source: Bash manual, simple commands
    """,
    "VRL314": """VRL314: the script starts with a byte order mark.

    Why: three invisible bytes stand before #!, so that the kernel does not find the interpreter, and bash does not know
        the first command.
    Example: a script that was saved as "UTF-8 with BOM"
    Instead: save it as plain UTF-8
    Source: Linux manual, execve
    """,
    "VRL315": """VRL315: the script is not valid bash at this place.

    Why: bash stops there, or reads on in a way that was not meant; what follows is checked as far as possible.
    Example: a quote or a bracket that is not closed
    Instead: close it; bash -n run.sh shows what bash says
    Source: Bash manual, shell grammar
    """,
    "VRL316": """VRL316: another file is read in, and it is not here.

    Why: what it sets is not known to this check: variables from it count as open.
    Example: source /opt/env.sh
    Instead: put what the launch needs into this script, or check on the machine that has the file
    Source: Bash manual, source
    """,
    "VRL317": """VRL317: the script has more branches than are followed.

    Why: conditions that only a run can decide are followed both ways, up to 16 combinations at once. Launches in the
        others may be missing.
    Example: five independent `if [ "$X" = 1 ]` before the launch, none of whose variables is set
    Instead: give the variables defaults, so that the branches are decided
    Source: -
    """,
    "VRL318": """VRL318: bash reads a reference of Hydra as its own, and does not run the launch.

    Why: ${a.b} is a reference to another key in OmegaConf. Without single quotes bash takes it for a variable, says
        "bad substitution", and skips the command.
    Example: trainer.default_local_dir=/ckpt/${trainer.project_name}
    Instead: 'trainer.default_local_dir=/ckpt/${trainer.project_name}'
    Source: Bash manual, shell parameter expansion; OmegaConf's interpolation
    """,
    "VRL319": """VRL319: a part of the script cannot be followed without running it.

    Why: values that come out of it are not known, and checks that need them are skipped.
    Example: a loop over files, or very deep nesting
    Instead: write it in a simpler way, or check this part yourself
    Source: -
    """,
    "VRL328": """VRL328: a prompt of the terminal was copied along with the command.

    Why: bash looks for a program of that name, or writes into a file, and does not start what stands behind it.
    Example: $ python3 -m verl.trainer.main_ppo ...
    Instead: the command alone
    Source: Bash manual, simple commands
    """,
    "VRL329": """VRL329: of an array only the first item reaches the launch.

    Why: $args is the item 0 of an array to bash. All others are left out without a message. zsh passes all of them.
    Example: args=(trainer.nnodes=2 trainer.total_epochs=1), and $args in the launch
    Instead: "${args[@]}"
    Source: Bash manual, arrays
    """,
    "VRL341": """VRL341: all host names of a job are in one element of an array.

    Why: quotes keep the lines of `scontrol show hostnames` together. ${#nodes_array[@]} is 1 and ${nodes_array[1]} is
        empty: `srun -w ""` starts the worker on any node, or a loop over the workers does not start one at all.
    Example: nodes_array=("$nodes"), and node_i=${nodes_array[$i]} in a loop
    Instead: nodes_array=($nodes), or mapfile -t nodes_array <<< "$nodes"
    Source: examples/tutorial/slurm/ray_on_slurm.slurm; Bash manual, word splitting
    """,
}
