import { expect, test } from "vitest";
import { entrances, entrancesMax } from "./entrances.ts";

const entrance = (port: number) => ({ port, to: { host: "10.213.0.2", port: 3000 } });
const many = (count: number) => Array.from({ length: count }, (_, index) => entrance(index + 1));

test.each([
  { what: "none", value: { generation: "1", address: "10.0.0.7", entrances: [] }, is: true },
  {
    what: "as many as there may be",
    value: { generation: "1", address: "10.0.0.7", entrances: many(entrancesMax) },
    is: true,
  },
  { what: "one more", value: { generation: "1", address: "10.0.0.7", entrances: many(entrancesMax + 1) }, is: false },
  {
    what: "one port twice",
    value: { generation: "1", address: "10.0.0.7", entrances: [entrance(1), entrance(1)] },
    is: false,
  },
  { what: "a name for an address", value: { generation: "1", address: "a.test", entrances: [] }, is: false },
  { what: "a port that is none", value: { generation: "1", address: "10.0.0.7", entrances: [entrance(0)] }, is: false },
  { what: "no generation", value: { address: "10.0.0.7", entrances: [] }, is: false },
  { what: "something more", value: { generation: "1", address: "10.0.0.7", entrances: [], plain: true }, is: false },
])("entrances: $what", ({ value, is }) => {
  expect(entrances.safeParse(value).success).toBe(is);
});
