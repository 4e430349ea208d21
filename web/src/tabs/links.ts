// Addresses inside the tabs of a job. What each tab keeps in the address is named here only.
import { jobAddress } from "../state";

export interface TensorPlace {
  kind?: string; figure?: string; mode?: string; worker?: string;   // what the heat map shows
  steps?: string;                    // zoom: "100-200"
  names?: string;                    // filter, a regular expression
  rows?: number;                     // height of a row; absent: all rows fit
  tensor?: string; step?: number;    // the tensor that is open, and at which step
}
export interface LogPlace {
  host?: string; attempt?: number;
  line?: string;                     // "812", or "812-840"
  at?: string;                       // "time:1763400000" or "step:300": resolved to a line, then replaced by it
  search?: string;                   // regular expression
}

export const tensorAddress = (job: string, place: TensorPlace): string => jobAddress(job, { tab: "tensors", ...place });
export const logAddress = (job: string, place: LogPlace): string => jobAddress(job, { tab: "logs", ...place });
