// Whether the window is as narrow as a phone.
import { createSignal } from "solid-js";

const query = window.matchMedia("(max-width: 700px)");
const [narrow, setNarrow] = createSignal(query.matches);
query.addEventListener("change", () => setNarrow(query.matches));
export { narrow };
