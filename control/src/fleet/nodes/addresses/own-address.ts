import { BlockList, isIP } from "node:net";

const noMachine = new BlockList();
noMachine.addSubnet("0.0.0.0", 8);
noMachine.addSubnet("169.254.0.0", 16);
noMachine.addSubnet("224.0.0.0", 3);
noMachine.addAddress("::", "ipv6");
noMachine.addSubnet("fe80::", 10, "ipv6");
noMachine.addSubnet("ff00::", 8, "ipv6");
const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");
const isIn = (list: BlockList, address: string) =>
  isIP(address) !== 0 && list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");

/** Whether a machine can have the address and others reach it there. A name could come to mean anything. */
export const isMachineAddress = (address: string): boolean => isIP(address) !== 0 && !isIn(noMachine, address);

/**
 * Whether edges may be sent to `address` because an agent whose call comes from `peer` says that it is its own. It may
 * only be one that the node is bound to: an agent that says what it likes would get the visitors of another node, or
 * have edges call on whatever answers there. An address of loopback is that of whoever dials it, so only an agent on
 * control's own machine has one, and that machine has all of them.
 */
export function isOwnAddress(address: string, peer: string, bound: readonly string[]): boolean {
  if (!isMachineAddress(address)) return false;
  if (!isIn(loopback, address)) return bound.includes(address);
  return isIn(loopback, peer) && bound.some((each) => isIn(loopback, each));
}
