import { describe, expect, test } from "vitest";
import { explore } from "./explore.ts";
import { type RouteMutant, routeSwitch } from "./route-switch.ts";
import { type RunMutant, runProtocol } from "./run-protocol.ts";
import { type SessionMutant, sessionProtocol } from "./session-protocol.ts";

describe("a command that must not run twice, in every order of events", () => {
  test("starts at most once, never after it was said not to, and while its node lives it is known whether it did", () => {
    const { violation, states } = explore(runProtocol(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });
  test("starts at most once, and never after it was said not to, where an agent of the version before started it", () => {
    const { violation, states } = explore(runProtocol(null, false));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: RunMutant[] = [
    "no tombstone",
    "no start record",
    "auto-remove",
    "take a grant back",
    "reads the gate and does not shut it",
    "shuts a gate that is claimed",
    "trusts an open gate after a reboot",
    "says held back of what it said has started",
    "runs behind a shut gate",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(runProtocol(bug)).violation).not.toBeNull();
  });
  const bugsWithoutGate: RunMutant[] = [
    "no start record",
    "created is never started",
    "auto-remove",
    "take a grant back",
  ];
  test.each(bugsWithoutGate)("would be caught without a gate, with the bug: %s", (bug) => {
    expect(explore(runProtocol(bug, false)).violation).not.toBeNull();
  });
});

describe("streams of one daemon, in every order of events", () => {
  test("only the one that has the key writes, and no delayed one takes it back", () => {
    const { violation, states } = explore(sessionProtocol(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: SessionMutant[] = ["no guard", "claim without a guard", "release without a guard"];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(sessionProtocol(bug)).violation).not.toBeNull();
  });
});

describe("a change of route, in every order of events", () => {
  test("takes no container away to which an edge sends visitors", () => {
    const { violation, states } = explore(routeSwitch(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: RouteMutant[] = ["does not wait for edges", "tells before it serves", "decides on an old view"];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(routeSwitch(bug)).violation).not.toBeNull();
  });
});
