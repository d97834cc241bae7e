"""Text to token ids and back, by the tokenizer files of a model directory.

The server never sees text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.arrays import Int32Array, TokenIds, token_array

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# One message of a chat: {"role": "user", "content": "..."}.
Message = Mapping[str, str]


class TextCodec:
    """A tokenizer with its chat template. Needs the extra `text`. Thread safe.

    `eos_token_id` and `bos_token_id` are None where the directory names none.
    """

    def __init__(self, tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._config = config
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self.eos_token_id = self._special_id("eos_token")
        self.bos_token_id = self._special_id("bos_token")

    @classmethod
    def from_directory(cls, model_directory: str | Path) -> TextCodec:
        """Reads tokenizer.json, and tokenizer_config.json where there is one."""
        from tokenizers import Tokenizer

        directory = Path(model_directory)
        tokenizer_path = directory / "tokenizer.json"
        if not tokenizer_path.is_file():
            raise FileNotFoundError(f"{tokenizer_path} does not exist")
        config_path = directory / "tokenizer_config.json"
        config = json.loads(config_path.read_text()) if config_path.is_file() else {}
        # Newer directories keep the template in a file of its own.
        template_path = directory / "chat_template.jinja"
        if template_path.is_file():
            config = config | {"chat_template": template_path.read_text()}
        return cls(Tokenizer.from_file(str(tokenizer_path)), config)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Int32Array:
        """Ids [N]. Special tokens written out in the text become their ids."""
        encoding = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return token_array(encoding.ids, "ids")

    def decode(self, ids: TokenIds, *, skip_special_tokens: bool = True) -> str:
        token_ids = token_array(ids, "ids").tolist()
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text

    def chat_prompt(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> str:
        """The text of a conversation by the directory's chat template; ValueError when it has none.

        The template runs in a sandbox: it comes with the model and is not ours.
        """
        from jinja2.exceptions import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        template = self._config.get("chat_template")
        if template is None:
            raise ValueError("the model directory has no chat template")

        def raise_exception(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = raise_exception
        return environment.from_string(template).render(
            messages=list(messages),
            add_generation_prompt=add_generation_prompt,
            bos_token=self._special_text("bos_token"),
            eos_token=self._special_text("eos_token"),
        )

    def encode_chat(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> Int32Array:
        """Ids of chat_prompt(messages): the template has written the special tokens already."""
        return self.encode(self.chat_prompt(messages, add_generation_prompt=add_generation_prompt))

    def _special_text(self, name: str) -> str:
        token = self._config.get(name)
        # Either the text, or an object that holds it.
        text: str = token["content"] if isinstance(token, Mapping) else token or ""
        return text

    def _special_id(self, name: str) -> int | None:
        text = self._special_text(name)
        token_id: int | None = self._tokenizer.token_to_id(text) if text else None
        return token_id
