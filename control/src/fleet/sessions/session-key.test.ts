import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { type Entry, type Etcd, type Txn, type TxnResult, UnknownOutcome } from "../../stores/etcd/index.ts";
import { SessionLost, takeSessionKey } from "./session-key.ts";

const at = "/svc/nodes/n1/session";

/** A store of which writes may be late: those after `delay` are answered by nobody, and applied by `arrive`, in their order. */
function aStore() {
  let entry: Entry | null = null;
  let revision = 1n;
  let isDelaying = false;
  const late: Txn[] = [];
  const apply = ({ guards = [], ops }: Txn): TxnResult => {
    const succeeded = guards.every((guard) =>
      guard.compare === "absent" ? entry === null : entry?.modRevision === guard.value,
    );
    if (succeeded) revision += 1n;
    for (const op of succeeded ? ops : [])
      if ("put" in op)
        entry = { ...op.put, createRevision: entry?.createRevision ?? revision, modRevision: revision, leaseId: 0n };
    return { succeeded, revision, reads: succeeded ? [] : [entry] };
  };
  const etcd = {
    get: async () => entry,
    async txn(txn: Txn) {
      if (!isDelaying) return apply(txn);
      late.push(txn);
      throw new UnknownOutcome("no answer");
    },
  } as unknown as Etcd;
  return {
    etcd,
    value: () => entry?.value,
    delay: () => {
      isDelaying = true;
    },
    arrive: () => {
      isDelaying = false;
      for (const each of late.splice(0)) apply(each);
    },
    /** Somebody else takes the key. */
    take: () => void apply({ guards: [], ops: [{ put: { key: at, value: "theirs" } }] }),
  };
}

const aKey = (etcd: Etcd) =>
  takeSessionKey(
    { clock: systemClock, random: systemRandom, etcd },
    {
      key: at,
      valueAfter: () => "opened",
      signal: new AbortController().signal,
      stopping: new AbortController().signal,
    },
  );

test("a write that comes late takes the key from nobody, whatever was tried after it", async () => {
  const store = aStore();
  const key = await aKey(store.etcd);
  store.delay();
  await expect(key.update("silent")).rejects.toThrow(UnknownOutcome);
  await expect(key.update("heard")).rejects.toThrow(UnknownOutcome);
  store.arrive();
  expect(store.value()).toBe("silent");
  await key.update("heard");
  expect(store.value()).toBe("heard");
  expect((await key.write([])).succeeded).toBe(true);
});

test("a write that comes late while another one is not answered takes the key from nobody either", async () => {
  const store = aStore();
  const key = await aKey(store.etcd);
  store.delay();
  await expect(key.update("silent")).rejects.toThrow(UnknownOutcome);
  const { get, txn } = store.etcd;
  // The first arrives before it is looked whether the second has.
  store.etcd.get = async (asked) => {
    store.arrive();
    return get(asked);
  };
  await expect(key.update("heard")).rejects.toThrow(UnknownOutcome);
  Object.assign(store.etcd, { get, txn });
  await key.update("heard");
  expect(store.value()).toBe("heard");
});

test("a key that somebody else took stays lost after late writes", async () => {
  const store = aStore();
  const key = await aKey(store.etcd);
  store.delay();
  await expect(key.update("silent")).rejects.toThrow(UnknownOutcome);
  store.take();
  store.arrive();
  await expect(key.update("heard")).rejects.toThrow(SessionLost);
  expect(store.value()).toBe("theirs");
});
