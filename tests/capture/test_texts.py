"""What is seen of the first batches of a language model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trackside.capture as tc
from tests.capture.networks import assert_no_failure
from tests.capture.test_vitals import anatomy_of
from trackside.capture.reading.anatomy import TextFacts
from trackside.capture.vitals.tokenizer_finder import special_tokens

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
PAD, BOS, EOS = 0, 1, 2


def small_model(kind: Any = transformers.LlamaForCausalLM) -> Any:
    torch.manual_seed(0)
    return kind(small_config()).train()


def small_config() -> Any:
    return transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )


class FusedForCausalLM(transformers.LlamaForCausalLM):  # type: ignore[name-defined,misc]
    """Computes the loss without a loss function of torch, as TRL's trainers do."""

    def forward(self, input_ids: Tensor, labels: Tensor, **more: Any) -> Any:
        made = super().forward(input_ids, **more)
        wanted = labels[:, 1:]
        scores = made.logits[:, :-1].log_softmax(-1)
        chosen = scores.gather(-1, wanted.clamp(min=0)[..., None]).squeeze(-1)
        made.loss = -chosen[wanted != -100].mean()
        return made


def rows(*lengths: int, width: int = 12, start: tuple[int, ...] = (BOS,)) -> Tensor:
    """Texts of these lengths, with their beginning and end, padded on the right."""
    made = torch.full((len(lengths), width), PAD)
    for row, length in zip(made, lengths, strict=True):
        row[:length] = torch.randint(5, 40, (length,))
        row[: len(start)] = torch.tensor(start)
        row[length - 1] = EOS
    return made


def facts_of(folder: Path, model: Any, batch: Any, *, num_backwards: int = 1) -> TextFacts:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with tc.watch(model, out_dir=folder) as hook:
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(num_backwards):
                (model(**batch()).loss / num_backwards).backward()
            optimizer.step()
    assert_no_failure(hook)
    text = anatomy_of(folder).text
    assert text is not None
    return text


def labelled(tokens: Tensor, **more: Tensor) -> dict[str, Tensor]:
    """The first three tokens are the prompt."""
    labels = tokens.masked_fill(tokens == PAD, -100)
    labels[:, :3] = -100
    return {"input_ids": tokens, "labels": labels, "attention_mask": (tokens != PAD).long(), **more}


def test_targets_ends_and_the_scale_of_the_loss_are_counted(tmp_path):
    text = facts_of(
        tmp_path / "t", small_model(), lambda: labelled(rows(8, 10, 12)), num_backwards=2
    )
    assert text.num_batches == 6
    assert (text.num_rows, text.num_tokens, text.num_trained) == (18, 180, 126)
    assert text.num_shifted_1 == text.num_compared_1 == 126
    assert (text.num_ends_trained, text.num_ends_missing, text.num_doubled_starts) == (18, 0, 0)
    assert text.scales == pytest.approx([0.5] * 6, rel=1e-4)
    assert not text.is_pretrained


def test_defects_of_texts_are_counted(tmp_path):
    doubled = labelled(rows(8, 10, start=(BOS, BOS)))
    assert facts_of(tmp_path / "d", small_model(), lambda: doubled).num_doubled_starts == 6
    hidden = labelled(rows(8, 10))
    hidden["labels"][hidden["input_ids"] == EOS] = -100
    assert facts_of(tmp_path / "h", small_model(), lambda: hidden).num_ends_masked == 6
    packed = labelled(torch.cat([rows(6, 6, width=6), rows(6, 6, width=6)], dim=1))
    text = facts_of(tmp_path / "p", small_model(), lambda: packed)
    assert (text.num_packed, text.num_separated) == (6, 0)
    stream = labelled(torch.cat([rows(6, 6, start=())[:, :6], rows(6, 6, width=6)], dim=1))
    assert facts_of(tmp_path / "s", small_model(), lambda: stream).num_packed == 6
    apart = {**packed, "position_ids": torch.arange(6).repeat(2, 2)}
    assert facts_of(tmp_path / "a", small_model(), lambda: apart).num_separated == 3


def test_a_token_of_the_beginning_that_parts_a_text_begins_no_other(tmp_path):
    """Question, token, answer: rows do not begin with it, and no text ends before it."""
    parted = rows(9, 10, start=())
    parted[:, 4] = BOS
    assert facts_of(tmp_path / "t", small_model(), lambda: labelled(parted)).num_packed == 0


def test_padding_on_the_left_counts_where_attention_reads_it(tmp_path):
    batch = labelled(rows(8, 9).flip(1))
    assert facts_of(tmp_path / "masked", small_model(), lambda: batch).num_padded_left == 0
    del batch["attention_mask"]
    assert facts_of(tmp_path / "read", small_model(), lambda: batch).num_padded_left == 6


def test_labels_that_were_shifted_before_are_told_from_ordinary_ones(tmp_path):
    batch = labelled(rows(8, 10))
    batch["labels"] = torch.cat([batch["labels"][:, 1:], torch.full((2, 1), -100)], dim=1)
    text = facts_of(tmp_path / "t", small_model(), lambda: batch)
    assert text.num_shifted_2 == text.num_compared_2 > text.num_shifted_1


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, 2, bias=False)
        self.lora_B = nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, given: Tensor) -> Tensor:
        return self.base_layer(given) + self.lora_B(self.lora_A(given))


@pytest.mark.parametrize("is_sick", [True, False])
def test_adapters_of_which_both_factors_are_zero_are_named(is_sick, tmp_path):
    model = small_model().requires_grad_(False)
    attention = model.model.layers[0].self_attn
    attention.q_proj = Adapted(attention.q_proj)
    if is_sick:
        nn.init.zeros_(attention.q_proj.lora_A.weight)
    text = facts_of(tmp_path / "t", model, lambda: labelled(rows(8, 10)))
    assert len(text.zero_adapters) == is_sick


def test_labels_are_read_where_no_loss_function_is_called(tmp_path):
    text = facts_of(tmp_path / "t", small_model(FusedForCausalLM), lambda: labelled(rows(8, 12)))
    assert (text.num_batches, text.num_rows, text.num_tokens) == (3, 6, 60)
    assert text.num_trained == text.num_shifted_1 == text.num_compared_1 == 42
    assert (text.num_ends_trained, text.scales) == (6, ())


def test_rows_that_are_cut_are_counted_with_what_is_left_of_their_answers(tmp_path):
    batch = labelled(rows(12, 12))
    batch["input_ids"][:, -1] = 7
    batch["labels"] = batch["input_ids"].clone()
    batch["labels"][0, :3] = batch["labels"][1, :8] = -100
    text = facts_of(tmp_path / "t", small_model(), lambda: batch)
    assert (text.num_cut, text.cut_lengths) == (6, (4, 9))


def test_answers_to_the_same_prompt_are_counted(tmp_path):
    tokens = rows(8, 10, 9)
    tokens[1, :3] = tokens[0, :3]
    text = facts_of(tmp_path / "t", small_model(), lambda: labelled(tokens))
    assert text.num_shared_prompts == 6


def test_a_reference_is_no_evaluation(tmp_path):
    """Calls without gradients on what is trained on: before the training, and in training mode."""
    model, batch = small_model(), labelled(rows(8, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def ask(*, is_trained: bool) -> None:
        model.train(is_trained)
        with torch.no_grad():
            model(**batch)
        model.train()

    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        ask(is_trained=False)
        for _ in range(3):
            loss = model(**batch).loss
            ask(is_trained=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert_no_failure(hook)
    text = anatomy_of(tmp_path / "t").text
    assert text is not None
    assert (text.num_batches, text.num_evaluated) == (3, 0)


class WithNewRows(nn.Embedding):
    """Trains rows of its own, and leaves the table as it is, as PEFT's trainable tokens do."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__(table.num_embeddings, table.embedding_dim, _weight=table.weight.detach())
        self.weight.requires_grad_(False)
        self.new = nn.Parameter(torch.zeros(2, table.embedding_dim))

    def forward(self, numbers: Tensor) -> Tensor:
        return super().forward(numbers) + self.new.sum()


@pytest.mark.parametrize("is_trained", [False, True])
def test_new_tokens_of_a_frozen_table_are_blank_unless_it_trains_rows_of_its_own(
    is_trained, tmp_path
):
    model = small_model()
    table = model.get_input_embeddings()
    table.requires_grad_(False)
    table.weight[5:8] = table.weight.mean(0)
    if is_trained:
        model.set_input_embeddings(WithNewRows(table))
    tokens = torch.tensor([[BOS, 5, 6, 7, 9, EOS]] * 2)
    text = facts_of(tmp_path / "t", model, lambda: labelled(tokens))
    assert text.num_blank_tokens == (0 if is_trained else 9)


CHATML = (
    "{% for m in messages %}<|im_start|> {{ m['content'] }} <|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
LLAMA = "<s>{% for m in messages %} {{ m['content'] }} {% endfor %}</s>"
LLAMA_2 = "{% for m in messages %}<s> {{ m['content'] }} </s>{% endfor %}"


def small_tokenizer(template: str, **named: str) -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "a", "b", "c"]
    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, "a")
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    plain.add_special_tokens(words[:5])
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", chat_template=template, **named
    )
    made.add_special_tokens({"additional_special_tokens": words[3:5]})
    return made


def test_what_begins_a_text_and_what_begins_a_turn_is_known_by_the_template():
    bare = transformers.PretrainedConfig()
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    assert special_tokens(bare, small_tokenizer(LLAMA, **ends)).begins_texts
    assert not special_tokens(bare, small_tokenizer(LLAMA_2, **ends)).begins_texts
    chatml = special_tokens(bare, small_tokenizer(CHATML, eos_token="<|im_end|>"))
    assert (chatml.begins_texts, chatml.turn) == (False, 3)


def test_rows_that_are_cut_out_of_many_talks_are_packed(tmp_path):
    tokens = small_tokenizer(CHATML, eos_token="<|im_end|>")
    model = small_model()
    model.config.bos_token_id, model.config.eos_token_id = None, 4
    whole = torch.tensor([3, 5, 6, 5, 6, 7, 4, 3, 7, 5, 6, 5, 6, 4])
    talks = {"sick": whole.roll(3), "a talk": whole, "the end of a talk": whole[2:]}
    packed = {}
    for name, row in talks.items():
        batch = labelled(row.repeat(2, 1))
        packed[name] = facts_of(tmp_path / name, model, lambda batch=batch: batch).num_packed
    assert packed == {"sick": 6, "a talk": 0, "the end of a talk": 0}
    del tokens
