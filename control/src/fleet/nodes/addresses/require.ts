import { ApiError } from "../../../http/errors.ts";
import { isMachineAddress } from "./own-address.ts";

/** Throws VALIDATION for an address that edges cannot be sent to. */
export function requireMachineAddresses(addresses: readonly string[]): void {
  const wrong = addresses.find((address) => !isMachineAddress(address));
  if (wrong === undefined) return;
  throw new ApiError("VALIDATION", { message: `addresses: No machine is reached at ${wrong}.` });
}
