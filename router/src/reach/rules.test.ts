import { describe, expect, test } from "vitest";
import { targetName } from "../names.ts";
import { anEntrance, aPage, aProxy } from "../testing/routes.ts";
import { machinesToAsk, nextSilence, silentMachines, withoutSilent } from "./rules.ts";

const upstreamsOf = (route: ReturnType<typeof aProxy>) =>
  route.target.case === "proxy" ? route.target.value.upstreams : [];

test("a machine is asked once, and only when visitors could go elsewhere", () => {
  const routes = [
    aProxy("a.test", "10.0.0.1:1", "10.0.0.2:1"),
    aProxy("b.test", "10.0.0.1:2", "10.0.0.3:2"),
    aProxy("single.test", "10.0.0.9:1"),
    aPage("page.test", "STOPPED"),
  ];
  expect([...machinesToAsk(routes, 0).keys()].sort()).toEqual(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
});

test("no project speaks for a machine that others use as well", () => {
  const routes = Array.from({ length: 8 }, (_, n) => ({
    ...aProxy(`${n}.test`, `10.0.0.1:${n + 1}`, "10.0.0.2:1"),
    projectId: `p${n}`,
  }));
  const asked = [0, 1, 2].map((round) => machinesToAsk(routes, round).get("10.0.0.1") ?? []);
  expect(asked.map((each) => each.length)).toEqual([3, 3, 3]);
  expect(new Set(asked.flat()).size).toBe(8);
});

describe("a machine is silent", () => {
  /** Plays rounds in which the named machines answer; two are asked. */
  const play = (...rounds: string[][]) =>
    silentMachines(
      rounds.reduce(
        (silence, answering) =>
          nextSilence(silence, new Map(["a", "b"].map((machine) => [machine, answering.includes(machine)]))),
        new Map<string, number>(),
      ),
    );
  test.each([
    { when: "after three questions", rounds: [["a"], ["a"], ["a"]], silent: ["b"] },
    { when: "not after two", rounds: [["a"], ["a"]], silent: [] },
    { when: "not when it answers now and then", rounds: [["a"], ["a"], ["a", "b"], ["a"], ["a"]], silent: [] },
    { when: "no more once it answers", rounds: [["a"], ["a"], ["a"], ["a", "b"]], silent: [] },
    { when: "not when nobody answers: this one is cut off", rounds: [[], [], [], []], silent: [] },
  ])("$when", ({ rounds, silent }) => {
    expect([...play(...rounds)]).toEqual(silent);
  });

  test("and forgotten when nothing is on it any more", () => {
    expect(nextSilence(new Map([["a", 9]]), new Map())).toEqual(new Map());
  });
});

describe("visitors", () => {
  const route = aProxy("a.test", "10.0.0.1:1", "10.0.0.2:1");

  test("do not go to a silent machine", () => {
    expect(upstreamsOf(withoutSilent(route, new Set(["10.0.0.1"])))).toEqual(["10.0.0.2:1"]);
  });

  test("come in at the entrances that are left", () => {
    const entered = withoutSilent(anEntrance("a.test", "10.0.0.1:1", "10.0.0.2:1"), new Set(["10.0.0.1"]));
    expect(targetName(entered)).toEqual({ name: "t1~10.0.0.2:1" });
  });

  test("go where they always did when that leaves nothing", () => {
    expect(withoutSilent(route, new Set(["10.0.0.1", "10.0.0.2"]))).toBe(route);
    expect(withoutSilent(route, new Set(["10.0.0.7"]))).toBe(route);
  });
});
