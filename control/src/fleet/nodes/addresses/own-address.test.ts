import { expect, test } from "vitest";
import { isMachineAddress, isOwnAddress } from "./own-address.ts";

test.each([
  { address: "10.0.0.7", peer: "10.0.0.7", bound: ["10.0.0.7"], is: true },
  // Behind a translated address, or with several networks: an operator says which one it is.
  { address: "10.0.0.7", peer: "198.51.100.1", bound: ["10.0.0.7", "10.0.1.7"], is: true },
  { address: "10.0.1.7", peer: "198.51.100.1", bound: ["10.0.0.7", "10.0.1.7"], is: true },
  { address: "10.0.0.8", peer: "10.0.0.7", bound: ["10.0.0.7"], is: false },
  // Where it calls from now is not where it joined from.
  { address: "10.0.0.8", peer: "10.0.0.8", bound: ["10.0.0.7"], is: false },
  { address: "10.0.0.7", peer: "10.0.0.7", bound: [], is: false },
  { address: "fd00::7", peer: "fd00::7", bound: ["fd00::7"], is: true },
  { address: "127.0.1.1", peer: "127.0.0.1", bound: ["127.0.0.1"], is: true },
  { address: "10.0.0.7", peer: "127.0.0.1", bound: ["127.0.0.1"], is: false },
  { address: "127.0.0.1", peer: "127.0.0.1", bound: ["10.0.0.7"], is: false },
  { address: "127.0.1.1", peer: "10.0.0.7", bound: ["127.0.1.1"], is: false },
  { address: "::1", peer: "10.0.0.7", bound: ["10.0.0.7"], is: false },
  { address: "127.0.1.1", peer: "", bound: ["127.0.0.1"], is: false },
  { address: "node-1.test", peer: "10.0.0.7", bound: ["node-1.test"], is: false },
  { address: "169.254.169.254", peer: "10.0.0.7", bound: ["169.254.169.254"], is: false },
])(
  "an agent at $peer whose node is bound to $bound may say that it is $address: $is",
  ({ address, peer, bound, is }) => {
    expect(isOwnAddress(address, peer, bound)).toBe(is);
  },
);

test.each([
  { address: "10.0.0.7", is: true },
  { address: "fd00::7", is: true },
  { address: "127.0.1.1", is: true },
  { address: "all", is: false },
  { address: "0.0.0.0", is: false },
  { address: "224.0.0.1", is: false },
  { address: "255.255.255.255", is: false },
  { address: "::", is: false },
  { address: "fe80::1", is: false },
])("$address can be a machine's: $is", ({ address, is }) => {
  expect(isMachineAddress(address)).toBe(is);
});
