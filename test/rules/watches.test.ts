import { expect, test } from "vitest";
import { sourcesOf } from "./sources.ts";

/** What opens a watch of etcd. The election has one of its own, of one key, which ends with the candidature. */
const opens = /\b(createView|viewRange|listWatch|watchRange)(<[^(]*>)?\(/;

test("a replica of control watches etcd in one place, so that every value is held and decoded once", () => {
  const opening = sourcesOf("control")
    .filter(({ path, text }) => !/\.test\.ts$|\/testing/.test(path) && opens.test(text))
    .map(({ path }) => path)
    .filter((path) => !path.startsWith("control/src/stores/etcd/"));
  expect(opening).toEqual(["control/src/fleet/cluster/views.ts"]);
});
