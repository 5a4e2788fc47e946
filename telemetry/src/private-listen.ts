import { BlockList, isIP } from "node:net";

const local = new BlockList();
local.addSubnet("127.0.0.0", 8);
local.addSubnet("10.0.0.0", 8);
local.addSubnet("172.16.0.0", 12);
local.addSubnet("192.168.0.0", 16);
// Shared by many overlay networks.
local.addSubnet("100.64.0.0", 10);
local.addSubnet("169.254.0.0", 16);
local.addAddress("::1", "ipv6");
local.addSubnet("fc00::", 7, "ipv6");
local.addSubnet("fe80::", 10, "ipv6");

/** Whether only a private network reaches a listener at `host:port`: not for every address, and not for what a name may mean. */
export function isPrivateListen(listen: string): boolean {
  const host = listen.slice(0, listen.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  const version = isIP(host);
  return host === "localhost" || (version !== 0 && local.check(host, version === 6 ? "ipv6" : "ipv4"));
}

/** What to say of one that is not. */
export const privateListenHint =
  "must be one private address of this machine, such as 10.0.0.7:9100, since nobody is asked there who they are";
