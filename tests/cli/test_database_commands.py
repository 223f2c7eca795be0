"""Every command takes a table in a database; predictions go into a new table that is there complete or not at all."""

import json
import tomllib
from functools import cache

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.cli.command import done, run
from tests.conformance.postgres_server import DATABASE, READER, ROOT, as_root
from tests.neighbours.databases import Place

from dpforest import Budget, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import DPForestError, OutputError, ParameterError, TableError
from dpforest.records.sources import database as in_database
from dpforest.records.sources import written
from dpforest.records.sources.casts import identifier

pytestmark = pytest.mark.slow

N_ROWS = 60
FEATURES = {
    "age": Numeric(0, 100),
    "mood": Categorical(["calm", "low"]),
    "since": Date("2020-01-01", "2023-01-01"),
    "seen": Date("2020-01-01", "2023-01-01", time=True),
    "rank": Numeric(0, 10, integer=True),
    "cost": Numeric(0, 10),
    "far": Numeric(0, 10),
    "member": Categorical([False, True]),
    "town": Categorical(),
}
SCHEMA = Schema(FEATURES, Classes(["no", "yes"], name="ill"), n_rows=N_ROWS, vouched_by="the ward")
# Types of the columns by engine. Both read the same values.
TYPES = {
    "id": ("INTEGER", "integer"),
    "key": ("UUID", "uuid"),
    "day": ("DATE", "date"),
    "age": ("DECIMAL(6, 2)", "numeric(6, 2)"),
    "mood": ("ENUM('calm', 'low', 'odd')", "mood"),
    "since": ("DATE", "date"),
    "seen": ("TIMESTAMPTZ", "timestamptz"),
    "rank": ("TINYINT", "smallint"),
    "cost": ("FLOAT", "real"),
    "far": ("HUGEINT", "numeric"),
    "member": ("BOOLEAN", "boolean"),
    "town": ("VARCHAR", "char(8)"),
    "ill": ("VARCHAR", "varchar(9)"),
}


def values():
    rng = np.random.default_rng(4)
    rows = []
    for place in range(N_ROWS):
        age = rng.uniform(0, 100)
        rows.append(
            {
                "id": str(place),
                "key": f"'00000000-0000-0000-0000-{place:012d}'",
                "day": f"DATE '2024-01-01' + {place}" if place % 10 else "'infinity'",
                "age": f"{age:.2f}" if place % 7 else "NULL",
                "mood": f"'{rng.choice(['calm', 'low', 'odd'])}'",
                "since": f"'202{rng.integers(0, 4)}-0{rng.integers(1, 10)}-11'" if place % 9 else "'-infinity'",
                "seen": f"'202{rng.integers(0, 3)}-11-05 22:{rng.integers(10, 60)}:59.9+03'" if place % 8 else "'infinity'",
                "rank": str(rng.integers(0, 12)),
                "cost": f"{rng.uniform(0, 12):.3f}" if place % 6 else "'NaN'",
                "far": str(rng.integers(-3, 12)) if place % 11 else "170141183460469231731687303715884105727",
                "member": str(rng.random() < 0.5) if place % 5 else "NULL",
                "town": f"'{rng.choice(['Oslo', 'Rome', 'Bern'])}'",
                "ill": f"'{rng.choice(['no', 'yes'], p=[0.3, 0.7] if age > 50 else [0.8, 0.2])}'" if place % 12 else "'?'",
            }
        )
    return rows


def filled(engine):
    """Statements that make the table of patients."""
    columns = ", ".join(f"{name} {kinds[engine]}" for name, kinds in TYPES.items())
    rows = ", ".join(f"({', '.join(row.values())})" for row in values())
    return [f"CREATE TABLE patients ({columns})", f"INSERT INTO patients VALUES {rows}"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_file("patients.json")
    model().save("m.dpf")
    monkeypatch.setattr(in_database, "PART_ROWS", 16)
    return tmp_path


@pytest.fixture(params=["duckdb", pytest.param("postgresql", marks=pytest.mark.server)])
def database(request, folder):
    """Where patients are: an address without its table, and a function that runs a query there."""
    place = Place(request.param, folder, request)
    if place.server:
        for (name,) in place.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            place.run(f"DROP TABLE {identifier(name)} CASCADE")
        place.run("DROP TYPE IF EXISTS mood CASCADE; CREATE TYPE mood AS ENUM ('calm', 'low', 'odd')")
    for statement in filled(int(place.server is not None)):
        place.run(statement)
    return place.server.url(ROOT, DATABASE) if place.server else place.address, place.run


@cache
def in_memory():
    """The rows as Python holds them, read by another way than commands go."""
    with duckdb.connect() as connection:
        for statement in filled(0):
            connection.execute(statement)
        return connection.sql("SELECT * FROM patients ORDER BY id").to_arrow_table()


def n_known():
    """The number of rows whose label is listed."""
    return sum(label in ("no", "yes") for label in in_memory().column("ill").to_pylist())


@cache
def model():
    """A model of patients that all tests share; none changes it."""
    trained = DPForestClassifier(SCHEMA, epsilon=8, n_trees=3)
    return trained.fit(in_memory().select([*FEATURES]), in_memory().column("ill"))


def scores_of(*words):
    return {score["name"]: score["value"] for score in json.loads(done("evaluate", "m.dpf", *words, "--json"))["scores"]}


def spent():
    return Budget.open("budget.db", dataset="ward").spent


def test_a_draft_names_the_columns_of_a_table_by_their_types(database, folder):
    said = done("schema", "draft", f"{database[0]}::patients", "--target", "ill")
    drafted = tomllib.loads((folder / "patients.schema.toml").read_text())
    kinds = {name: part["kind"] for name, part in drafted["features"].items()}
    assert kinds == {
        **dict.fromkeys(("id", "age", "rank", "cost", "far"), "numeric"),
        **dict.fromkeys(("mood", "member", "town"), "categorical"),
        **dict.fromkeys(("day", "since", "seen"), "date"),
    }
    assert drafted["features"]["rank"]["integer"]
    assert drafted["features"]["seen"]["time"]
    assert drafted["target"] == {"name": "ill", "kind": "classes", "labels": "?"}
    assert "key" in said  # left out, and said so
    assert "--table" in said


def test_a_check_counts_values_and_names_a_column_of_the_wrong_type(database):
    table, asked = in_memory(), ("--table", f"{database[0]}::patients", "--json")
    found = json.loads(done("schema", "check", "patients.json", *asked))
    assert found["unused_columns"] == ["id", "key", "day"]
    counts = {column["name"]: column for column in found["table"]["columns"]}
    assert found["table"]["rows"] == N_ROWS
    assert counts["age"]["missing"] == table.column("age").null_count
    assert counts["cost"]["missing"] == N_ROWS // 6
    assert counts["mood"]["other"] == table.column("mood").to_pylist().count("odd")
    assert counts["far"]["outside"] == sum(not 0 <= number <= 10 for number in table.column("far").to_pylist())
    assert counts["ill"]["other"] == N_ROWS // 12
    assert all(column["unreadable"] == 0 and column["problem"] is None for column in counts.values())
    Schema({"town": Numeric(0, 1), "age": Numeric(0, 1)}, Classes(["no", "yes"], name="ill")).to_file("wrong.json")
    found = run("schema", "check", "wrong.json", *asked)
    assert found.exit_code == 1
    problems = {column["name"]: column["problem"] for column in json.loads(found.output)["table"]["columns"]}
    assert "Column 'town' is declared numeric" in problems["town"]
    assert problems["age"] is None


def check_predictions(model, found, ids):
    """Predictions by database, in memory and by the exported query are the same."""
    expected = model.predict_proba(in_memory().select([*FEATURES]))
    shares = np.array([found[f"probability_{label}"] for label in ("no", "yes")]).T
    np.testing.assert_array_equal(shares[np.argsort(found["id"])], expected)
    assert sorted(found["id"]) == list(range(N_ROWS))
    assert list(found) == [*ids, "prediction", "probability_no", "probability_yes"]
    labels = np.array(found["prediction"])[np.argsort(found["id"])]
    np.testing.assert_array_equal(labels, np.array(["no", "yes"])[expected.argmax(axis=1)])


IDS = ("--id", "key", "--id", "id", "--id", "day")


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_predictions_from_a_table_carry_its_ids_into_a_file(database, out):
    done("predict", "m.dpf", f"{database[0]}::patients", "--out", out, *IDS)
    found = (pyarrow.csv.read_csv if out == "p.csv" else pq.read_table)(out).to_pydict()
    check_predictions(model(), found, ["key", "id", "day"])
    assert found["key"][3] == f"00000000-0000-0000-0000-{found['id'][3]:012d}"
    assert found["day"].count("infinity") == N_ROWS // 10


def test_predictions_in_a_new_table_are_those_of_the_exported_query(database, folder):
    address, ask = database
    fit = ("fit", f"{address}::patients", "--schema", "patients.json", "--epsilon", 8, "--n-trees", 3)
    assert run(*fit, "--out", "own.dpf").exit_code == 0
    done("predict", "own.dpf", f"{address}::patients", "--out", f"{address}::scores", *IDS)
    names = ["key", "id", "day", "prediction", "probability_no", "probability_yes"]
    rows = ask("SELECT key, id, CAST(day AS VARCHAR), prediction, probability_no, probability_yes FROM scores ORDER BY id")
    check_predictions(load_model("own.dpf"), dict(zip(names, zip(*rows, strict=True), strict=True)), names[:3])
    # The types of ids are kept, so that tables can be joined by any of them.
    assert ask("SELECT COUNT(*) FROM scores JOIN patients USING (key, id, day)") == [(N_ROWS,)]
    done("export", "own.dpf", "--out", "own.sql", "--table", "patients", "--id", "id")
    by_query = ask((folder / "own.sql").read_text())
    np.testing.assert_allclose([row[-2:] for row in by_query], [row[-2:] for row in rows], rtol=0, atol=1e-12)
    assert [row[:2] for row in by_query] == [(row[1], row[3]) for row in rows]
    refused = run("predict", "own.dpf", f"{address}::patients", "--out", f"{address}::patients", "--id", "id").exception
    assert isinstance(refused, OutputError)
    assert "There is a table 'patients' already." in str(refused)
    assert ask("SELECT COUNT(*) FROM patients") == [(N_ROWS,)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["interrupt", "no memory"])
def test_a_prediction_that_fails_in_the_middle_leaves_no_table(database, monkeypatch, error):
    address, ask = database
    command = ("predict", "m.dpf", f"{address}::patients", "--out", f"{address}::scores", "--id", "id")
    asked, predict = [], DPForestClassifier.predict_proba

    def stop(self, X):
        asked.append(len(X))
        if len(asked) == 3:
            raise error
        return predict(self, X)

    with monkeypatch.context() as patched:
        patched.setattr(DPForestClassifier, "predict_proba", stop)
        assert run(*command).exit_code != 0
    assert len(asked) == 3
    assert ask("SELECT table_name FROM information_schema.tables WHERE table_name = 'scores'") == []
    done(*command)
    assert ask("SELECT COUNT(*) FROM scores") == [(N_ROWS,)]


def test_a_score_of_a_table_is_that_of_the_rows_in_memory(database):
    rows = in_memory().filter([label in ("no", "yes") for label in in_memory().column("ill").to_pylist()])
    exact = np.mean(model().predict(rows.select([*FEATURES])) == np.array(rows.column("ill")))
    for how in (["--public"], ["--epsilon", "inf"]):
        assert scores_of(f"{database[0]}::patients", *how)["accuracy"] == pytest.approx(exact)


def test_a_score_with_noise_is_charged_once_the_table_is_known_to_do(database):
    address, ask = database
    done("budget", "create", "budget.db::ward", "--epsilon", 1)
    asked = ["evaluate", "m.dpf", "--epsilon", 0.5, "--budget", "budget.db::ward"]
    ask("CREATE VIEW partly AS SELECT age, ill FROM patients")
    assert isinstance(run(*asked, f"{address}::partly").exception, TableError)
    assert spent() == 0
    done(*asked, f"{address}::patients")
    assert spent() == 0.5


def test_a_score_of_persons_counts_k_rows_of_each_by_ids_of_any_type(database):
    """A UUID, and a decimal that PostgreSQL writes as 7.0 and as 7.00."""
    address, ask = database
    times = [f"SELECT patients.*, id * CAST('{one}' AS NUMERIC) AS code FROM patients" for one in ("1.0", "1.00", "1.000")]
    ask(f"CREATE TABLE visits AS {' UNION ALL '.join(times)}")
    asked = ["evaluate", "m.dpf", f"{address}::visits", "--epsilon", "inf", "--max-rows-per-person", 2, "--json"]
    for ids in ("key", "code"):
        assert json.loads(done(*asked, "--groups", ids))["n_rows"] == 2 * n_known()
    assert "numbers or text" in str(run(*asked, "--groups", "day").exception)


REFUSED = {
    "no id": ("--out p.csv", ParameterError, "have no order.*--id COLUMN"),
    "an id that is not there": ("--out p.csv --id nobody", TableError, "'nobody' that was asked for is missing"),
    "an id twice": ("--out p.csv --id id --id id", ParameterError, "'id' more than once"),
    "an id called as predictions are": ("--out p.csv --id Prediction", ParameterError, "is called as predictions"),
    "an id called as a probability": ("--out p.csv --id probability_x", ParameterError, "is called as predictions"),
    "another ending": ("--out p.txt --id id", ParameterError, "Predictions are written to .csv or .parquet"),
    "a file that is no database": ("--out duckdb:///m.dpf::t --id id", OutputError, "is a model"),
    "no table": ("--out duckdb:///new.db --id id", ParameterError, "names no table"),
    "an unknown engine": ("--out mysql://u:hush@h/d::t --id id", ParameterError, "'mysql'"),
    "no server": ("--out postgresql://u:hush@127.0.0.1:1/d::t --id id", TableError, "No connection"),
}


@pytest.mark.parametrize(("arguments", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_will_not_do_is_refused_and_leaves_nothing(folder, arguments, error, words):
    with duckdb.connect("ward.db") as connection:
        for statement in filled(0):
            connection.execute(statement)
    before = {path.name for path in folder.iterdir()}
    found = run("predict", "m.dpf", "duckdb:///ward.db::patients", *arguments.split())
    with pytest.raises(error, match=words):
        raise found.exception
    assert "hush" not in f"{found.exception}{found.output}"
    assert {path.name for path in folder.iterdir()} == before


@pytest.fixture
def plain(folder):
    """A model and a CSV file of rows with an id."""
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 40)
    schema = Schema({"age": Numeric(0, 100)}, Classes(["A", "a", "x" * 80], name="ill"))
    DPForestClassifier(schema, epsilon=4).fit(pa.table({"age": age}), np.where(age > 50, "A", "a")).save("plain.dpf")
    table = pa.table({"age": age, "who": [f"p{place}" if place % 4 else "" for place in range(40)], "no": range(40)})
    pyarrow.csv.write_csv(table, "t.csv")
    pq.write_table(table, "t.parquet", row_group_size=7)
    return table


def predict(source, out, *ids):
    """Predictions of the plain model with columns of ids."""
    return run("predict", "plain.dpf", source, "--out", out, *(word for name in ids for word in ("--id", name)))


def test_predictions_of_a_file_carry_ids_as_they_are_and_keep_its_order(plain):
    for source in ("t.csv", "t.parquet"):
        assert predict(source, "p.parquet", "no", "who", "age").exit_code == 0
        found = pq.read_table("p.parquet")
        assert found.column_names[:4] == ["no", "who", "age", "prediction"]
        assert list(map(int, found.column("no").to_pylist())) == list(range(40))
        assert [name or "" for name in found.column("who").to_pylist()] == plain.column("who").to_pylist()


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("postgres", marks=pytest.mark.server)])
def test_names_that_a_database_would_take_for_the_same_are_told_apart(plain, request, engine):
    address = "duckdb:///new.db"
    if engine == "postgres":
        server = request.getfixturevalue("server")
        address = server.url(ROOT, DATABASE)
        with as_root(server) as root:
            root.execute('DROP TABLE IF EXISTS "sco res"')
    assert predict("t.csv", f"{address}::sco res", "no", "who").exit_code == 0
    opened = psycopg.connect(address) if engine == "postgres" else duckdb.connect("new.db")
    with opened as connection:
        found = connection.execute('SELECT * FROM "sco res"')
        names, rows = [column[0] for column in found.description], found.fetchall()
    assert names[:5] == ["no", "who", "prediction", "probability_A", "probability_a_2"]
    assert all(len(name) <= 63 for name in names)
    assert len(rows) == 40
    assert sum(row[1] is None for row in rows) == 10  # an empty cell of a CSV file is missing


def test_a_new_file_of_duckdb_is_gone_if_a_prediction_fails(plain, folder, monkeypatch):
    def fail(self, X):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPForestClassifier, "predict_proba", fail)
    before = {path.name for path in folder.iterdir()}
    assert predict("t.csv", "duckdb:///new.db::t", "no").exit_code != 0
    assert {path.name for path in folder.iterdir()} == before


def test_a_table_may_be_made_in_a_schema_and_its_name_may_hold_a_dot(plain):
    with duckdb.connect("new.db") as connection:
        connection.execute("CREATE SCHEMA s")
    for table, where in (("s.t", "s.t"), ("a.b", '"a.b"')):
        assert predict("t.csv", f"duckdb:///new.db::{table}", "no").exit_code == 0
        with duckdb.connect("new.db") as connection:
            assert connection.execute(f"SELECT COUNT(*) FROM {where}").fetchall() == [(40,)]
        assert isinstance(predict("t.csv", f"duckdb:///new.db::{table}", "no").exception, OutputError)


def test_ids_of_different_types_in_the_files_of_a_folder_are_refused(plain, folder):
    (folder / "parts").mkdir()
    pq.write_table(plain, "parts/0.parquet")
    pq.write_table(plain.set_column(2, "no", pa.array(np.arange(40.0))), "parts/1.parquet")
    refused = predict("parts", "p.csv", "no").exception
    assert isinstance(refused, TableError)
    assert "has the type int64 in one file of the table and double in another" in str(refused)
    assert not (folder / "p.csv").exists()


@pytest.mark.server
def test_an_account_that_may_not_write_is_told_without_its_password(server, plain):
    address = server.url(READER, DATABASE)
    told = []
    for found in (
        predict("t.csv", f"{address}::forbidden", "no"),
        predict(f"{address}::nothing", "p.csv", "no"),
        run("schema", "draft", f"{address}::nothing"),
        run("evaluate", "plain.dpf", f"{address}::nothing", "--public"),
    ):
        assert isinstance(found.exception, DPForestError)
        told.append(f"{found.exception} {found.output}")
    assert "this account may not make it" in told[0]
    assert not any(server.password in words for words in told)


def test_the_words_of_an_engine_are_not_repeated_where_a_row_cannot_be_written(plain, monkeypatch):
    monkeypatch.setattr(written, "_cast", lambda column, field: f"CAST({column} AS DATE)")
    refused = predict("t.csv", "duckdb:///new.db::t", "who").exception
    assert isinstance(refused, OutputError)
    assert refused.__suppress_context__
    assert "p1" not in str(refused)


def test_notes_in_a_file_of_arrow_are_no_sql(plain):
    """A file from elsewhere may note with a column whatever is taken for its type in a database."""
    notes = {"duckdb": "VARCHAR) || (SELECT 'made up'", "postgres": "text); CREATE TABLE made_up (a int); --"}
    field = pa.field("who", pa.string(), metadata=notes)
    pyarrow.feather.write_feather(plain.set_column(1, field, plain.column("who")), "t.feather")
    assert pyarrow.feather.read_table("t.feather").schema.field("who").metadata
    assert predict("t.feather", "duckdb:///new.db::t", "who").exit_code == 0
    with duckdb.connect("new.db") as connection:
        assert connection.sql("SELECT who FROM t").fetchall() == [(who,) for who in plain.column("who").to_pylist()]
    assert [written._type(field), written._cast("c0", field)] == ["text", "c0"]
