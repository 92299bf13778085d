"""Asks a daemon hostile questions, as any user of its machine can. Prints one JSON object with all answers.

Half of the queries go over connections that are kept, half over one each. Beside them clients ask what never ends and leave,
some read no answer, and one sends other requests. In the end one asks until it is refused.

hostile_queries.py HOST:PORT SNAPSHOT QUERIES REQUESTS, with a token in the environment, TOKEN: any user's that may read.
"""
import http.client
import json
import os
import socket
import sys
import threading
import time

HOST, SNAPSHOT = sys.argv[1], sys.argv[2]
QUERIES, REQUESTS = int(sys.argv[3]), int(sys.argv[4])
SQL = f"/view/{SNAPSHOT}/api/sql"
BEARER = f"Bearer {os.environ['TOKEN']}"

# Each of them must be answered by an error.
REFUSED = [
    # Changes of what others see, of settings, of files.
    "create or replace table machines as select 0 machine_id, 'FORGEDHOST' name, 'host' kind",
    "create or replace view machines as select 0 machine_id, 'FORGEDHOST' name",
    "create schema forged",
    "create external table passwd stored as csv location '/etc/passwd'",
    "drop table machines",
    "drop view antagonists",
    "insert into machines select * from machines",
    "delete from machines",
    "update machines set name = 'FORGEDHOST'",
    "truncate table machines",
    "set datafusion.runtime.memory_limit = '100G'",
    "set datafusion.execution.target_partitions = 100000",
    "copy machines to '/tmp/transect-forged.csv'",
    "copy (select 'FORGED' as x) to '/dev/shm/transect-forged.parquet'",
    "explain analyze insert into machines select * from machines",
    "explain analyze copy machines to '/tmp/transect-forged.csv'",
    "select 1; drop table machines",
    "prepare forged as select 1",
    "begin",
    # Files, network, environment.
    "select * from '/etc/shadow'",
    "select * from '/proc/self/environ'",
    "select * from read_csv('/etc/passwd')",
    "select * from asof('copy machines to ''/tmp/transect-forged.csv''', 'exits')",
    "select getenv('PATH')",
    # Memory: values, lists, groups, sorts.
    "select repeat('x', 2000000000)",
    "select repeat(repeat('x', 100000), 100000)",
    "select lpad('x', 2000000000, 'y')",
    "select rpad('x', 2000000000, 'yz')",
    "select array_repeat(array_repeat(1, 100000), 100000)",
    "select array_agg(value) from range(1000000000)",
    "select string_agg(repeat('x', 1000000), '') from range(100000)",
    "select * from range(1000000000000) order by value desc",
    "select count(distinct value % 1000000000) from range(1000000000000)",
    "select * from range(100000000) a join range(100000000) b on a.value = b.value order by a.value",
    "select row_number() over (order by value desc) from range(1000000000)",
    "select repeat('x', 50000000) from range(100)",
    "select repeat('x', 300000000) as a, repeat('y', 300000000) as b",
    # Recursion.
    "select " + "(" * 10000 + "1" + ")" * 10000,
    "select " + "not " * 100000 + "true",
    "select " + "case when true then " * 5000 + "1" + " end" * 5000,
    "select * from " + "(select * from " * 3000 + "machines" + ")" * 3000,
    # No query at all.
    "",
    ";",
    "\0",
    "select",
    "grant all on machines to nobody",
]

# Each of them must be answered by its first rows, and the answer must say so.
CUT = [
    "select value, count(*) from range(1000000000000) group by value",
    "select a.value from range(1000000) a cross join range(1000000) b",
]

# They never end by themselves. Their clients leave after a second.
ENDLESS = [
    "select count(*) from range(10000000000) a, range(10000000000) b where a.value + b.value < 0",
    "with recursive t as (select 1 as n union all select n + 1 from t) select count(*) from t where n < 0",
    "select levenshtein(repeat('a', 3000000), repeat('b', 3000000))",
    "select sum(a.value) from range(1000000000000) a",
]

# What costs little, from the newest window to what is no request.
REQUESTED = [
    "/metrics",
    "/api/v1/now?tables=windows",
    "/api/v1/status",
    "/api/v1/snapshots",
    "/api/v1/history?from=-1m&step=10s&tables=windows",
    f"/view/{SNAPSHOT}/api/recording",
    f"/view/{SNAPSHOT}/api/sql",
    f"/view/{SNAPSHOT}/",
    "/view/../../etc/passwd",
    "/healthz",
]


def ask(connection, method, path, body=None):
    connection.request(method, path, body, {"Authorization": BEARER})
    response = connection.getresponse()
    content = response.read()
    return response, content


def query(connection, sql):
    """One line about the answer to a query."""
    begun = time.monotonic()
    body = json.dumps({"sql": sql, "limit": 1000})
    try:
        response, content = ask(connection, "POST", SQL, body)
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return {"sql": sql[:80], "status": 0, "error": repr(error)}
    text = content[:4000].decode("utf-8", "replace") if response.status != 200 else ""
    try:
        error = json.loads(content)["error"] if response.status != 200 else ""
    except (ValueError, KeyError):
        error = ""
    seconds = round(time.monotonic() - begun, 2)
    return {
        "sql": sql[:80],
        "status": response.status,
        "error": error,
        "text": text,
        "again": response.getheader("Retry-After"),
        "truncated": response.getheader("X-Truncated"),
        "seconds": seconds,
    }


def ask_hostile(numbers, answers):
    connection = http.client.HTTPConnection(HOST, timeout=120)
    for number in numbers:
        if number % 2:
            connection.close()
        sql = (REFUSED + CUT)[number % len(REFUSED + CUT)]
        while True:
            answer = query(connection, sql)
            # Its own other queries have all the places that one client may have.
            if answer["status"] != 429:
                break
            time.sleep(float(answer["again"]))
        answers.append({**answer, "is_cut": sql in CUT})
    connection.close()


def read_nothing(statuses):
    """Asks for all tiles over 40 connections and reads no answer for five seconds."""
    connection = http.client.HTTPConnection(HOST, timeout=120)
    _, content = ask(connection, "GET", f"/view/{SNAPSHOT}/api/recording")
    connection.close()
    recording = json.loads(content)
    tracks = list(range(recording["tracks"]))
    address, port = HOST.rsplit(":", 1)
    clients = []
    for number in range(40):
        wish = {"level": 16 + number % 12, "first": 0, "count": 1, "tracks": tracks * (1 + number % 2 * 20)}
        body = json.dumps(wish)
        path = f"/view/{SNAPSHOT}/api/tiles"
        head = f"POST {path} HTTP/1.0\r\nHost: {HOST}\r\nAuthorization: {BEARER}\r\nContent-Length: {len(body)}\r\n\r\n"
        client = socket.create_connection((address, int(port)))
        client.sendall((head + body).encode())
        clients.append(client)
    time.sleep(5)
    for client in clients:
        statuses.append(int(client.recv(64).split(b" ")[1]))
        client.close()


def ask_until_refused():
    connection = http.client.HTTPConnection(HOST, timeout=120)
    for _ in range(QUERIES + 2000):
        answer = query(connection, "select 1")
        if answer["status"] != 200:
            break
    connection.close()
    return answer


def leave():
    """Asks what never ends, and is gone a second later."""
    for sql in ENDLESS:
        address, port = HOST.rsplit(":", 1)
        body = json.dumps({"sql": sql})
        head = f"POST {SQL} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {BEARER}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((address, int(port))) as client:
            # What comes after the request does not keep the connection.
            client.sendall((head + body + "GET").encode())
            time.sleep(1)


def request_often(count, statuses):
    connection = http.client.HTTPConnection(HOST, timeout=120)
    for number in range(count):
        try:
            response, _ = ask(connection, "GET", REQUESTED[number % len(REQUESTED)])
            statuses.append(response.status)
        except (OSError, http.client.HTTPException):
            connection.close()
            statuses.append(0)
    connection.close()


def become_nobody():
    """Root would be another client, and may ask more. The interpreter may lie where nobody cannot read."""
    "127.0.0.1".encode("idna")
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def main():
    if os.geteuid() == 0:
        become_nobody()
    answers, statuses = [], []
    begun = time.monotonic()
    threads = [threading.Thread(target=ask_hostile, args=(range(k, QUERIES, 4), answers)) for k in range(4)]
    threads.append(threading.Thread(target=leave))
    threads.append(threading.Thread(target=read_nothing, args=(statuses,)))
    threads.append(threading.Thread(target=request_often, args=(REQUESTS, statuses)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({
        "answers": answers,
        "statuses": statuses,
        "seconds": round(time.monotonic() - begun, 1),
        "refused": ask_until_refused(),
    }))


main()
