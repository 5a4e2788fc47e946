// @pure
import { BlockList } from "node:net";

/**
 * Addresses that sit behind `bridge`, an address of this machine: all of the network that it has there. A container reaches
 * the addresses of other bridges, too, since they are all this machine's: that must not make it one of theirs.
 *
 * @param networks that this machine is in, each with its address there, as `172.20.0.1/16`
 */
export function neighboursOf(networks: readonly string[], bridge: string): BlockList {
  const neighbours = new BlockList();
  const own = networks.filter((network) => network.startsWith(`${bridge}/`));
  // Of loopback every address is this machine's, and one is told.
  for (const network of own.length > 0 ? own : networks) {
    const [address = "", prefix = ""] = network.split("/");
    const list = new BlockList();
    list.addSubnet(address, Number(prefix), "ipv4");
    if (list.check(bridge, "ipv4")) neighbours.addSubnet(address, Number(prefix), "ipv4");
  }
  return neighbours;
}
