import { expect, test } from "vitest";
import type { Change } from "../../stores/etcd/index.ts";
import { indexByNode } from "./node-index.ts";

const under = "/svc/placements/";

/** Values by `<node>/<id>`, changed by the test as a watch would change them. */
function aSource(initial: Record<string, string> = {}) {
  const values = new Map(Object.entries(initial).map(([at, value]) => [`${under}${at}`, value]));
  const callbacks = new Set<(changes: readonly Change<string>[], revision: bigint) => void>();
  const source = {
    revision: 1n,
    entries: () => values.entries(),
    subscribe(callback: (changes: readonly Change<string>[], revision: bigint) => void) {
      callbacks.add(callback);
      return { [Symbol.dispose]: () => void callbacks.delete(callback) };
    },
    /** One transaction; null deletes. */
    change(changed: Record<string, string | null>) {
      source.revision += 1n;
      const changes = Object.entries(changed).map(([at, value]): Change<string> => {
        const key = `${under}${at}`;
        const previous = values.get(key);
        if (value === null) {
          values.delete(key);
          return { type: "delete", key, previous: previous ?? "" };
        }
        values.set(key, value);
        return { type: "put", key, value, previous };
      });
      for (const callback of callbacks) callback(changes, source.revision);
    },
  };
  return source;
}

test("a node's share and any value by its id follow what changes", () => {
  const source = aSource({ "n1/a": "1", "n2/b": "2" });
  const index = indexByNode(source, under);
  expect([...index.of("n1")]).toEqual([["a", "1"]]);
  expect(index.find("b")).toEqual({ nodeId: "n2", value: "2" });
  source.change({ "n1/a": "3", "n1/c": "4", "n2/b": null });
  expect([...index.of("n1")]).toEqual([
    ["a", "3"],
    ["c", "4"],
  ]);
  expect([...index.of("n2")]).toEqual([]);
  expect(index.find("a")).toEqual({ nodeId: "n1", value: "3" });
  expect(index.find("b")).toBeNull();
  expect(index.revision).toBe(source.revision);
});

test("an id that is at two nodes for a moment is found where it was written last, whichever goes first", () => {
  const source = aSource({ "n1/a": "old" });
  const index = indexByNode(source, under);
  source.change({ "n2/a": "new" });
  expect(index.find("a")).toEqual({ nodeId: "n2", value: "new" });
  source.change({ "n1/a": null });
  expect(index.find("a")).toEqual({ nodeId: "n2", value: "new" });
});

test("whoever follows a node hears of its own share only, once per transaction, and finds what changed", () => {
  const source = aSource();
  const index = indexByNode(source, under);
  const heard: string[] = [];
  const subscription = index.subscribe("n1", () => heard.push([...index.of("n1").values()].join()));
  source.change({ "n2/b": "2" });
  source.change({ "n1/a": "1", "n1/c": "3", "n2/b": "4" });
  expect(heard).toEqual(["1,3"]);
  subscription[Symbol.dispose]();
  source.change({ "n1/a": null });
  expect(heard).toEqual(["1,3"]);
});

test("whoever follows the source finds the index as new as the source", () => {
  const source = aSource();
  const index = indexByNode(source, under);
  const found: unknown[] = [];
  source.subscribe(() => found.push(index.find("a")?.value));
  source.change({ "n1/a": "1" });
  source.change({ "n1/a": "2" });
  expect(found).toEqual(["1", "2"]);
});
