import { campaign } from "@svc/control/stores/etcd/campaign";
import type { Etcd } from "@svc/control/stores/etcd/client";
import { grantLease } from "@svc/control/stores/etcd/lease";
import { createView } from "@svc/control/stores/etcd/view";
import { expect, test } from "vitest";
import { Kernel, Process } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { EtcdStore } from "./etcd.ts";
import { createVirtualEtcd, EtcdPath } from "./etcd-path.ts";

const clock = { drift: 0, wallOffsetMs: 0 };

/** A store, and a replica whose client is the product's. */
function world(seed = 1) {
  const kernel = new Kernel(seed);
  const store = new EtcdStore(kernel, new Process(kernel, "etcd", clock));
  const trouble = { unknownShare: 0, slowShare: 0 };
  const said: string[] = [];
  const replica = (name: string) => {
    const process = new Process(kernel, name, clock);
    process.start();
    const path = new EtcdPath(kernel, store, process, trouble);
    const say = (what: string): void => void said.push(`${name} ${what}`);
    /** Runs code of the product in the present life of the process. */
    const begin = (code: (etcd: Etcd) => unknown): void => {
      const etcd = createVirtualEtcd(path, virtualLog(process), () => ({ by: "server", serverId: name }));
      kernel.at(0, "begin", () => enter(process, () => void code(etcd)), process);
    };
    return { process, path, say, begin };
  };
  const put = (key: string, value: string): void =>
    void store.txn({ guards: [], ops: [{ put: { key, value } }], writer: { by: "operator" } });
  return { kernel, store, trouble, said, replica, put };
}

test("what is written is read, by key and by prefix, and guards hold", async () => {
  const { kernel, said, replica } = world();
  const { begin, say } = replica("one");
  begin(async (etcd) => {
    for (const key of ["/b/2", "/b/1", "/c"]) await etcd.txn({ ops: [{ put: { key, value: `of ${key}` } }] });
    const guards = [{ key: "/c", compare: "absent" }] as const;
    const { succeeded, reads } = await etcd.txn({
      guards,
      ops: [{ delete: { key: "/c" } }],
      orElse: [{ get: { key: "/c" } }],
    });
    say(`${succeeded} ${reads[0]?.value}`);
    say((await etcd.range("/b/")).entries.map(({ key, value }) => `${key}=${value}`).join(" "));
    say(String(await etcd.get("/none")));
  });
  await kernel.run(1_000);
  expect(said).toEqual(["one false of /c", "one /b/1=of /b/1 /b/2=of /b/2", "one null"]);
});

test("a write that was not answered is of unknown outcome, and may be applied late", async () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 40; seed += 1) {
    const { kernel, store, trouble, replica } = world(seed);
    trouble.unknownShare = 1;
    let heardAs = "";
    let wasThere = false;
    replica("one").begin(async (etcd) => {
      await etcd.txn({ ops: [{ put: { key: "/a", value: "1" } }] }).catch((error: Error) => {
        heardAs = `${error.name} after ${kernel.nowMs > 2_000 ? "its deadline" : "a moment"}`;
        wasThere = store.get("/a") !== null;
      });
    });
    await kernel.run(20_000);
    const became = store.get("/a") === null ? "never" : wasThere ? "before" : "late";
    outcomes.add(`${heardAs}, applied ${became}`);
  }
  expect([...outcomes].sort()).toEqual(
    ["a moment", "its deadline"].flatMap((when) =>
      ["before", "late", "never"].map((became) => `UnknownOutcome after ${when}, applied ${became}`),
    ),
  );
});

test("a read goes on to another member, until the store answers again", async () => {
  const { kernel, store, said, replica, put } = world();
  put("/a", "1");
  const { begin, say, path } = replica("one");
  store.isUp = false;
  kernel.at(900, "up", () => {
    store.isUp = true;
  });
  begin(async (etcd) => {
    say(`${(await etcd.get("/a"))?.value} after ${kernel.nowMs > 900}`);
    path.cutUntilMs = Number.POSITIVE_INFINITY;
    await etcd.get("/a").catch((error: Error) => say(error.message));
  });
  await kernel.run(30_000);
  expect(said).toEqual(["one 1 after true", expect.stringMatching(/etcd range on .*: Deadline exceeded/)]);
});

test("a view follows through broken, silent and compacted watches, and a restore", async () => {
  const { kernel, store, replica, put } = world();
  const { begin, path } = replica("one");
  const seen: string[] = [];
  begin((etcd) => {
    const view = createView(etcd, "/v/", (_key, value) => value);
    view.subscribe((changes) => {
      for (const change of changes) seen.push(change.type === "put" ? change.value : `no ${change.previous}`);
    });
  });
  const steps: (() => void)[] = [
    () => put("/v/a", "first"),
    () => path.breakWatches(),
    () => put("/v/a", "after it broke"),
    () => {
      path.cutUntilMs = kernel.nowMs + 20_000;
      put("/v/b", "while it was cut");
    },
    () => {
      store.isUp = false;
      store.breakWatches();
      put("/v/c", "before it was compacted");
      store.compact();
      kernel.at(3_000, "up", () => {
        store.isUp = true;
      });
    },
    () => store.restore({ clusterId: 1n, revision: 2n, entries: [] }, 1_000n),
    () => put("/v/d", "after the restore"),
  ];
  for (const [at, step] of steps.entries()) kernel.at((at + 1) * 40_000, "step", step);
  await kernel.run(400_000);
  expect(seen).toEqual([
    ...["first", "after it broke", "while it was cut", "before it was compacted"],
    ...["no after it broke", "no while it was cut", "no before it was compacted", "after the restore"],
  ]);
});

test("a lease is kept alive over a broken path, and lost by its holder before the store ends it", async () => {
  const { kernel, store, said, replica } = world();
  const { begin, say, path } = replica("one");
  store.onCommit = (commits) => {
    if (commits.some(({ after }) => after === null)) said.push("the store ends it");
  };
  begin(async (etcd) => {
    const lease = await grantLease(etcd, { ttlMs: 6_000 });
    await etcd.txn({ guards: [], ops: [{ put: { key: "/held", value: "", leaseId: lease.id } }] });
    lease.signal.addEventListener("abort", () => say("lost it"));
  });
  kernel.at(20_000, "broke", () => path.breakWatches());
  kernel.at(40_000, "cut", () => {
    path.cutUntilMs = Number.POSITIVE_INFINITY;
  });
  await kernel.run(39_000);
  expect(said).toEqual([]);
  await kernel.run(60_000);
  expect(said).toEqual(["one lost it", "the store ends it"]);
});

test("one leads at a time, and another one after it has crashed; no code of that life goes on", async () => {
  const { kernel, said, replica } = world();
  const both = ["one", "two"].map((name) => replica(name));
  for (const { begin, say, process } of both) {
    begin((etcd) =>
      campaign({
        ...{ etcd, key: "/leader", id: process.id, ttlMs: 6_000, signal: new AbortController().signal },
        async lead({ signal }) {
          say("leads");
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          say("leads no longer");
        },
      }),
    );
  }
  await kernel.run(20_000);
  const first = both.find(({ process }) => said[0] === `${process.id} leads`);
  const second = both.find((each) => each !== first);
  first?.process.kill();
  first?.path.forget();
  await kernel.run(60_000);
  expect(said).toEqual([`${first?.process.id} leads`, `${second?.process.id} leads`]);
});
