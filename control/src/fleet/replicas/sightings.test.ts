import { describe, expect, test } from "vitest";
import type { ObservationValue } from "../cluster/keys.ts";
import { isPublishable, Sightings } from "./sightings.ts";

const said = (observed: ObservationValue["observed"], upstream: string | null = null, restartSeq = 0) =>
  ({ observed, upstream, restartSeq }) as ObservationValue;
const at = (second: number) => new Date(second * 1_000);

describe("a container may have been published", () => {
  test.each([
    ["nobody has said a word of it", null, false],
    ["its image is being fetched", said("pulling"), false],
    ["it starts", said("starting"), false],
    ["it has an address", said("running", "10.0.0.1:20000"), true],
    ["it started again", said("starting", null, 1), true],
    ["it has ended", said("failed"), true],
  ])("%s: %s", (_name, observation, expected) => expect(isPublishable(observation)).toBe(expected));
});

describe("times", () => {
  test("the end of a container is when it was first seen, until it is up again", () => {
    const sightings = new Sightings();
    sightings.see("a", said("failed"), at(1));
    sightings.see("a", said("failed"), at(2));
    expect(sightings.endedAt.get("a")).toEqual(at(1));
    sightings.see("a", said("running", "10.0.0.1:20000"), at(3));
    expect(sightings.endedAt.get("a")).toBeUndefined();
  });

  test("a container is without visitors from the first look on, and anew after it had some", () => {
    const sightings = new Sightings();
    for (const [isUnrouted, second] of [
      [true, 1],
      [false, 2],
      [true, 3],
      [true, 4],
    ] as const)
      sightings.seeRoute("a", isUnrouted, at(second));
    expect(sightings.unroutedAt.get("a")).toEqual(at(3));
  });

  test("tasks that are over are forgotten", () => {
    const sightings = new Sightings();
    sightings.see("a", said("failed"), at(1));
    sightings.keepOnly(new Set(["b"]));
    expect([sightings.endedAt.size, sightings.wasPublished("a")]).toEqual([0, false]);
  });
});

describe("visitors may get to a container", () => {
  const routed = new Set(["10.0.0.1:20000", "10.0.0.2:20000"]);
  const replica = (id: string, served = true) => ({ id, served });

  test.each([
    ["its address is among those", { a: "10.0.0.1:20000" }, [replica("a")], true],
    ["its address is not", { a: "10.0.0.9:20000" }, [replica("a")], false],
    [
      "nobody knows its address, nor whose one of those is",
      { b: "10.0.0.2:20000" },
      [replica("a"), replica("b")],
      true,
    ],
    [
      "nobody knows its address, and those are of others",
      { b: "10.0.0.1:20000", c: "10.0.0.2:20000" },
      [replica("a"), replica("b"), replica("c")],
      false,
    ],
    ["nobody knows its address, and it never served", {}, [replica("a", false)], false],
  ])("%s: %s", (_name, upstreams, replicas, expected) => {
    const sightings = new Sightings();
    for (const [id, upstream] of Object.entries(upstreams)) sightings.see(id, said("running", upstream), at(0));
    expect(sightings.isAmong(routed, "a", replicas)).toBe(expected);
  });

  test("one that is down for a moment keeps the address where it was last reached", () => {
    const sightings = new Sightings();
    sightings.see("a", said("running", "10.0.0.1:20000"), at(0));
    sightings.see("a", said("starting", null, 1), at(1));
    expect(sightings.isAmong(routed, "a", [replica("a")])).toBe(true);
  });
});
