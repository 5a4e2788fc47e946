import fc from "fast-check";
import { expect, test } from "vitest";
import { freeSubnet } from "./subnets.ts";

const pool = "10.213.0.0/24";

test.each([
  { when: "nothing is taken", taken: [], start: 0, subnet: "10.213.0.0/28" },
  { when: "the start lies further on", taken: [], start: 3, subnet: "10.213.0.48/28" },
  { when: "the start lies past the end", taken: [], start: 17, subnet: "10.213.0.16/28" },
  { when: "the first is taken", taken: ["10.213.0.0/28"], start: 0, subnet: "10.213.0.16/28" },
  { when: "a larger network covers the first half", taken: ["10.213.0.0/25"], start: 0, subnet: "10.213.0.128/28" },
  { when: "an IPv6 network is listed", taken: ["fd00::/64"], start: 0, subnet: "10.213.0.0/28" },
])("when $when", ({ taken, start, subnet }) => {
  expect(freeSubnet(pool, taken, start)?.subnet).toBe(subnet);
});

test("a pool that is used up yields nothing", () => {
  expect(freeSubnet(pool, ["10.0.0.0/8"], 0)).toBeNull();
});

test("the gateway is the first address", () => {
  expect(freeSubnet(pool, [], 1)).toEqual({ subnet: "10.213.0.16/28", gateway: "10.213.0.17" });
});

test("subnets claimed one after the other fill the pool without overlap", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { minLength: 16, maxLength: 16 }), (starts) => {
      const taken: string[] = [];
      for (const start of starts) {
        const free = freeSubnet(pool, taken, start);
        if (free === null || taken.includes(free.subnet)) return false;
        taken.push(free.subnet);
      }
      return freeSubnet(pool, taken, 0) === null;
    }),
  );
});
