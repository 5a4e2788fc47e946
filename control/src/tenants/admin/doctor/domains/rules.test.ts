import { expect, test } from "vitest";
import { judgeDomains } from "./rules.ts";

const well = { verified: 3, pending: 1, failing: [], elsewhere: [] };

test.each([
  { when: "there are none", health: { ...well, verified: 0, pending: 0 }, servers: 1, warns: [] },
  { when: "all is well", health: well, servers: 2, warns: [] },
  {
    when: "a proof is gone",
    health: { ...well, failing: ["a.example (shop)"] },
    servers: 2,
    warns: [/a\.example \(shop\)/],
  },
  {
    when: "one leads elsewhere",
    health: { ...well, elsewhere: ["b.example (shop)"] },
    servers: 2,
    warns: [/b\.example/],
  },
  { when: "one server is believed", health: well, servers: 1, warns: [/a single DNS server/] },
])("when $when", ({ health, servers, warns }) => {
  const found = judgeDomains(health, servers).filter(({ status }) => status === "warn");
  expect(found.map(({ text }) => text)).toEqual(warns.map((text) => expect.stringMatching(text)));
});
