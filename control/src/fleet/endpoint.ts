import { endpointFor } from "../http/endpoint.ts";
import type { FleetContext } from "./context.ts";

/** See `endpointFor`. */
export const endpoint = endpointFor<FleetContext>();
