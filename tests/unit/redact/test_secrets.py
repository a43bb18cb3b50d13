"""What is hidden on a command line that is kept, and what is not."""

from __future__ import annotations

import json
import shlex
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.redact.secrets import HIDDEN, is_secret_name, text_without_secrets, without_secrets

ORDINARY = [
    "python train.py --tokenizer x --max-tokens 5 --keyframe 3 --author me",
    "python -m torch.distributed.run --nproc_per_node=8 train.py --lr=0.1 --batch-size 256",
    "torchrun --standalone --nnodes=1 main.py --data /data/imagenet --arch resnet50 --amp",
    "accelerate launch --mixed_precision fp16 run_glue.py --model_name_or_path bert-base-cased",
    "python run_squad.py --hf_model_name_or_path bert-large --max_seq_length 384 --do_train",
    "python train.py --wandb_project_name speech --wandb_entity_name team --wandb offline",
    "python main.py +trainer.max_epochs=3 model/encoder=conformer ~callbacks data.num_workers=4",
    "python t.py --config configs/maskrcnn_r50.yaml MODEL.WEIGHTS /w.pkl SOLVER.BASE_LR 0.02",
    "python translate.py --src-vocab v.en --tgt-vocab v.de --tokens-per-batch 4096",
    "deepspeed --num_gpus 8 train.py --deepspeed ds.json --zero-stage 2 --gradient-passes 2",
    "python gan.py --authors-file a.txt --passthrough --keys-per-head 8 --secretary bob",
    "mpirun -np 4 -x NCCL_DEBUG=INFO -x PATH=/usr/bin python hvd.py --key-dim 64",
    "python t.py --data https://data.example.org:8080/set.tar --mirror s3://bucket/a@b",
    "python t.py --init git@github.com:me/w.git --note task-classification-of-long-documents",
    "bash -c 'cd /src && OMP_NUM_THREADS=4 python train.py --tokenizer bpe --epochs 3'",
    "python tts.py --tokenized data.bin --monkey 1 --bypass 2 --compass-dir c --accessible yes",
]


@pytest.mark.parametrize("line", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_commands_stay(line: str) -> None:
    assert without_secrets(shlex.split(line)) == shlex.split(line)


NAMES = st.sampled_from(
    ["password", "db-password", "PASSWD", "passphrase", "wandb_api_key", "api-key", "apikey",
     "hf_token", "token", "auth-token", "AWS_SECRET_ACCESS_KEY", "private-key", "credentials",
     "client.secret", "auth", "authorization", "account_key", "hfToken", "clientSecret"]
)  # fmt: skip
# No value that could stand in the rest of the command line by chance.
SECRETS = st.text(string.ascii_letters + string.digits + "+/_-.!", min_size=8).map(
    lambda text: f"Q{text}Z"
)
# In scripts and JSON a name is recognized by its separators alone.
PLAIN_NAMES = NAMES.filter(lambda name: name not in ("hfToken", "clientSecret"))
FORMS = [
    lambda name, secret: [f"--{name}", secret],
    lambda name, secret: [f"--{name}={secret}"],
    lambda name, secret: [f"-{name}", secret],
    lambda name, secret: [f"{name}={secret}"],
    lambda name, secret: [f"++logger.{name}={secret}"],
]
INNER_FORMS = [
    lambda name, secret: ["-c", f"export {name}={secret}; python t.py"],
    lambda name, secret: ["-c", f"env A=1 {name}='{secret} {secret}' python t.py"],
    lambda name, secret: ["-c", f"python t.py --{name} {secret} --lr 1"],
    lambda name, secret: ["-c", f'python t.py --{name}="{secret}" --lr 1'],
    lambda name, secret: ["--config", json.dumps({"a": {name: secret}})],
    lambda name, secret: ["--header", f"{name}: Bearer {secret}"],
]


def _is_hidden(arguments: list[str], secret: str) -> bool:
    hidden = without_secrets(["python", "t.py", *arguments, "--epochs", "3"])
    assert hidden[:2] == ["python", "t.py"]
    assert hidden[-2:] == ["--epochs", "3"]
    assert HIDDEN in " ".join(hidden)
    return secret not in " ".join(hidden)


@given(NAMES, SECRETS, st.sampled_from(FORMS))
def test_values_of_secret_names_are_hidden(name: str, secret: str, form: object) -> None:
    assert _is_hidden(form(name, secret), secret)  # type: ignore[operator]


@given(PLAIN_NAMES, SECRETS, st.sampled_from(INNER_FORMS))
def test_secrets_inside_one_argument_are_hidden(name: str, secret: str, form: object) -> None:
    assert _is_hidden(form(name, secret), secret)  # type: ignore[operator]


@given(
    SECRETS.map(lambda s: s.replace("/", "x")),
    st.sampled_from(["me", ""]),
    st.sampled_from(["", "@more", ":more"]),
)
def test_passwords_in_addresses_are_hidden(secret: str, user: str, rest: str) -> None:
    address = f"postgres://{user}:{secret}{rest}@host:5432/db"
    (hidden,) = without_secrets([address])
    assert hidden == f"postgres://{HIDDEN}@host:5432/db"
    assert _is_hidden([f"--tracking-uri={address}"], secret)


ALNUM = string.ascii_letters + string.digits


@given(
    st.one_of(
        st.text(ALNUM, min_size=36, max_size=36).map("ghp_{}".format),
        st.text(ALNUM + "_", min_size=60, max_size=82).map("github_pat_{}".format),
        st.text(ALNUM, min_size=34, max_size=34).map("hf_{}".format),
        st.text(ALNUM + "-_", min_size=40, max_size=60).map("sk-proj-{}".format),
        st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16).map(
            "AKIA{}".format
        ),
        st.text(ALNUM + "-", min_size=30, max_size=40).map("xoxb-{}".format),
        st.text(ALNUM + "-_", min_size=20, max_size=20).map("glpat-{}".format),
        st.text(ALNUM + "-_", min_size=35, max_size=35).map("AIza{}".format),
        st.text(ALNUM + "-_", min_size=60, max_size=70).map("nvapi-{}".format),
        st.text(ALNUM, min_size=36, max_size=36).map("npm_{}".format),
        st.text(ALNUM + "-_", min_size=100, max_size=150).map("pypi-{}".format),
        st.text(ALNUM, min_size=37, max_size=37).map("r8_{}".format),
        st.lists(st.text(ALNUM + "-_", min_size=20), min_size=2, max_size=2).map(
            lambda parts: f"eyJhbGciOiJI.eyJ{parts[0]}.{parts[1]}"
        ),
    ),
    st.sampled_from(["{}", "--login={}", "https://{}@github.com/a/b", "echo {} | sh"]),
)
def test_tokens_are_known_by_how_they_begin(token: str, place: str) -> None:
    assert _is_hidden([place.format(token)], token)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_arguments_can_be_read(arguments: list[str]) -> None:
    assert len(without_secrets(arguments)) == len(arguments)


def test_an_option_without_value_hides_no_option_after_it() -> None:
    assert without_secrets(["--use-auth", "--lr", "3"]) == ["--use-auth", "--lr", "3"]
    assert without_secrets(["--token", "a", "b"]) == ["--token", HIDDEN, "b"]


@pytest.mark.parametrize(
    "text",
    [
        *ORDINARY,
        "token=5", "token: 3/128", "max_token = 2,048", '"token": null', "forward pass: block 3",
        "Backward Pass : 3", "auth::scope", "secret::kernel<int>", "password=***",
        "api_key: <redacted>", "layer:token_embedding", "iteration 3", "",
    ],
)  # fmt: skip
def test_ordinary_texts_stay(text: str) -> None:
    found: list[str] = []
    assert text_without_secrets(text, found.append) == text
    assert not found


@given(PLAIN_NAMES, SECRETS, st.sampled_from(INNER_FORMS))
def test_secrets_in_texts_are_hidden(name: str, secret: str, form: object) -> None:
    found: list[str] = []
    text = " ".join(form(name, secret))  # type: ignore[operator]
    hidden = text_without_secrets(text, found.append)
    assert secret not in hidden
    assert secret in " ".join(found)
    assert text_without_secrets(hidden) == hidden


def test_a_pass_may_be_a_password() -> None:
    assert text_without_secrets("db_pass: hunter2") == "db_pass: ***"
    assert text_without_secrets("pass=hunter2") == "pass=***"
    assert text_without_secrets('{"pass": "hunter2"}') == '{"pass": ***}'


def test_names_of_secrets() -> None:
    for name in ("WANDB_API_KEY", "hfToken", "client-secret", "AWS_SECRET_ACCESS_KEY"):
        assert is_secret_name(name)
    for name in ("PATH", "tokenizer", "batch_size", "keys", "author"):
        assert not is_secret_name(name)


@pytest.mark.parametrize("before", ['k<int>("', "run('", "`", "[", "{", "sh -c x,"])
def test_options_may_follow_a_quote_or_a_bracket(before: str) -> None:
    assert text_without_secrets(f"{before}--password qzxjwvkqj") == f"{before}--password {HIDDEN}"
