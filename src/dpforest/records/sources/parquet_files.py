"""The reader of a Parquet file or folder: each file has its own types. Sees rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpforest.errors import TableError
from dpforest.records.parquet_rows import File, folder_texts, open_files, read_batches, types_of
from dpforest.records.source import Asked, Part, Progress, Source, each_once, silent, telling
from dpforest.records.text import kind_of_texts, kind_of_type
from dpforest.schema import Format

PARQUET = (".parquet", ".pq")
PART_ROWS = 1 << 17


@dataclass(frozen=True)
class ParquetTable(Source):
    """A reader of a Parquet file, or of a folder of them."""

    path: Path
    repeats = True

    @property
    def typed(self) -> bool:  # type: ignore[override]
        """Whether all columns have types: what folders are named after is text."""
        return not self.guessed()

    def names(self) -> list[str]:
        self._check_is_there()
        return each_once(list(types_of(self.path).names), self.path)

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type; of one that folders stand for a guess from their names."""
        self.names()
        texts = folder_texts(self.path)
        kinds = {field.name: kind_of_type(field.type) for field in types_of(self.path)}
        return kinds | {name: kind_of_texts(column, name, Format()) for name, column in texts.items()}

    def guessed(self) -> list[str]:
        """The columns that folders stand for."""
        return [*folder_texts(self.path)]

    def empty(self, asked: Asked) -> Part:
        return asked.part(self.files(asked)[0].empty(asked.columns))

    def files(self, asked: Asked) -> list[File]:
        """The files, each of which was checked."""
        self._check_is_there()
        return open_files(
            self.path, asked.schema, with_target=asked.with_target, any_type=asked.any_type, besides=asked.besides
        )

    def parts(self, asked: Asked, progress: Progress = silent) -> Iterator[Part]:
        """Some rows at a time, each file with its own types; see ``Source``."""
        wanted, files = asked.columns, self.files(asked)
        n_done, n_rows = 0, sum(file.n_rows for file in files)
        with telling(progress) as tell:
            for rows in read_batches(files, wanted, PART_ROWS):
                yield asked.part(rows)
                n_done += rows.num_rows
                tell(n_done / max(n_rows, 1))  # a file may declare less than it has
        if n_done == 0:
            yield asked.part(files[0].empty(wanted))

    def _check_is_there(self) -> None:
        if not self.path.exists():
            raise TableError(f"There is no file {self.path}.")


def is_parquet(path: Path) -> bool:
    return path.suffix in PARQUET or path.is_dir()
