import { expect, test } from "vitest";
import { addressSet } from "../../fleet/images/address-set.ts";
import { pointingOf } from "./pointing.ts";

const isOurs = addressSet(["198.51.100.1", "2001:db8::1"]);
const isProxy = addressSet(["203.0.113.0/24", "2001:db8:5::/48"]);
const of = (...addresses: string[]) => pointingOf("shop.example", addresses, isOurs, isProxy);

test.each([
  { addresses: [], status: "unresolved", problem: /no address/ },
  { addresses: ["198.51.100.1"], status: "direct", problem: null },
  { addresses: ["198.51.100.1", "2001:0db8:0:0::1"], status: "direct", problem: null },
  { addresses: ["203.0.113.7", "2001:db8:5::9"], status: "proxied", problem: null },
  { addresses: ["192.0.2.9"], status: "not-pointing", problem: / leads to 192\.0\.2\.9,/ },
  { addresses: ["198.51.100.1", "2001:db8::2"], status: "not-pointing", problem: /also leads to 2001:db8::2,/ },
  { addresses: ["203.0.113.7", "192.0.2.9"], status: "not-pointing", problem: /192\.0\.2\.9/ },
  { addresses: ["198.51.100.1", "203.0.113.7"], status: "not-pointing", problem: /203\.0\.113\.7/ },
])("$addresses is $status", ({ addresses, status, problem }) => {
  expect(of(...addresses)).toEqual({ status, problem: problem === null ? null : expect.stringMatching(problem) });
});
