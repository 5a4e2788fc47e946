// @pure
import { BlockList } from "node:net";

/** A network that this machine is in, as `10.1.0.1/16`. */
export type Network = string;

/**
 * Whether `remote` sits in a network of this machine that `bridge`, an address of it, is in. A container reaches the
 * addresses of other bridges, too, since they are all this machine's: that must not make it one of theirs.
 */
export function isNeighbour(networks: readonly Network[], bridge: string, remote: string): boolean {
  return networks.some((network) => {
    const [address = "", prefix = ""] = network.split("/");
    const list = new BlockList();
    list.addSubnet(address, Number(prefix), "ipv4");
    return list.check(bridge, "ipv4") && list.check(remote, "ipv4");
  });
}
