"""What checks.js does, by the drivers of Python: `python3 checks.py psycopg` or `pymysql`."""

import json
import os
import pathlib
import sys
import threading
import time
from urllib.parse import urlsplit

url = os.environ["DATABASE_URL"]
name = sys.argv[1]
engine = "postgres" if name == "psycopg" else "mariadb"
sql = json.loads((pathlib.Path(__file__).parent / "sql.json").read_text())[engine]
crowd = 60


if name == "psycopg":
    import psycopg

    def connect(at):
        return psycopg.connect(at, autocommit=True)

    def said(error):
        # What refuses a login has no code in libpq: its words are the server's.
        text = str(error)
        if "too many" in text:
            return "53300"
        return error.sqlstate or ("28P01" if "password authentication failed" in text else text)

    def run(connection, text, values=None, prepare=False):
        cursor = connection.execute(text, values, prepare=prepare)
        return cursor.fetchall() if cursor.description else []

    def call_off(connection, other, number):
        connection.cancel_safe()

else:
    import pymysql

    def connect(at):
        parts = urlsplit(at)
        return pymysql.connect(
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=parts.password,
            database=parts.path[1:],
            autocommit=True,
        )

    def said(error):
        return str(error.args[0])

    def run(connection, text, values=None, prepare=False):
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall()) if cursor.description else []

    def call_off(connection, other, number):
        run(other, f"kill query {number}")


def refusal(work):
    try:
        work()
        return "none"
    except Exception as error:
        return said(error)


def patiently(at=url):
    for _ in range(100):
        try:
            return connect(at)
        except Exception as error:
            if said(error) not in ("53300", "1040"):
                raise
        time.sleep(0.2)
    return connect(at)


client = patiently()
told = {}
prepared = sql["prepared"].replace("{}", "%s")
told["prepared"] = [int(run(client, prepared, [n], prepare=True)[0][0]) for n in (1, 2, 3)]

run(client, sql["table"])
for statement in ("begin", "insert into kept values (1)", "rollback"):
    run(client, statement)
told["rolledBack"] = len(run(client, "select n from kept"))
run(client, sql["fill"])
rows = run(client, "select n from kept order by n")
told["rows"] = len(rows)
told["sum"] = sum(n for (n,) in rows)

values = [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in sql["values"]]
told["echoed"] = [str(value) for value in run(client, sql["echo"].replace("{}", "%s"), values)[0]]

other = patiently()
number = 0 if engine == "postgres" else run(client, "select connection_id()")[0][0]


def cancel():
    while run(other, sql["sleeping"])[0][0] == 0:
        time.sleep(0.02)
    call_off(client, other, number)


thread = threading.Thread(target=cancel)
thread.start()
told["cancelled"] = refusal(lambda: run(client, sql["sleep"]))
thread.join()
told["afterwards"] = run(client, "select 7")[0][0]
other.close()

password = urlsplit(url).password
told["wrongPassword"] = refusal(lambda: patiently(url.replace(password, "wrong")).close())

opened = [client]


def fill_up():
    while len(opened) < crowd:
        opened.append(connect(url))


told["crowded"] = refusal(fill_up)
for each in opened:
    each.close()
last = patiently()
told["atLast"] = run(last, "select 8")[0][0]
last.close()
print(json.dumps(told))
