import { expect, test } from "vitest";
import { householdOf, visitorKey } from "./visitor.ts";

test.each([
  ["192.0.2.7", "192.0.2.7"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:0DB8:1:2:ffff::1", "2001:db8:1:2"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["2001:db8:1:2::", "2001:db8:1:2"],
  ["fe80::1%eth0", "fe80:0:0:0"],
  ["::1", "0:0:0:0"],
  ["", ""],
  ["no address", "no address"],
])("%s is of %s", (address, household) => expect(householdOf(address)).toBe(household));

test("another day, project, household or browser is another visitor, and the same is the same", () => {
  const usual: [string, string, string, string] = ["salt 1", "project 1", "2001:db8:1:2::7", "Agent/1"];
  const key = visitorKey(...usual);
  expect(key).toMatch(/^[0-9a-f]{16}$/);
  expect(visitorKey(usual[0], usual[1], "2001:db8:1:2::8", usual[3])).toBe(key);
  for (const [index, other] of ["salt 2", "project 2", "2001:db8:1:3::7", "Agent/2"].entries()) {
    const changed: typeof usual = [...usual];
    changed[index] = other;
    expect(visitorKey(...changed)).not.toBe(key);
  }
});
