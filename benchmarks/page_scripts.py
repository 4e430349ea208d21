"""What `benchmarks/page.py` runs in the browser."""

PRESSED = """() => {
    window.pressed = 0;
    const take = (event) => { window.pressed = event.timeStamp; };
    for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, take, true);
}"""
"""Keeps the moment of the last key or click."""

WATCH = """([selector, attribute]) => {
    window.seen = [];
    let last = null;
    const look = () => {
        const found = document.querySelector(selector);
        const value = (attribute ? found?.getAttribute(attribute) : found?.textContent) ?? "";
        if (value === last) return;
        last = value;
        const { pressed } = window;
        const painted = () => window.seen.push([value, (performance.now() - pressed) / 1000]);
        requestAnimationFrame(() => setTimeout(painted, 0));
    };
    const everything = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(look).observe(document.body, everything);
    look();
}"""
"""Keeps each text that the first such element has had, and the seconds from the last key until the
frame with it was painted."""

_ASK = """
    const base = document.baseURI.split("#")[0];
    const session = await (await fetch(new URL("api/session", base))).json();
    const ask = async (path, body) => {
        const headers = { "content-type": "application/json", "x-trackside-csrf": session.csrf };
        const request = { method: "POST", body: JSON.stringify(body), headers };
        const buffer = await (await fetch(new URL(path, base), request)).arrayBuffer();
        const length = new DataView(buffer).getUint32(4, true);
        const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
        const first = Math.ceil((8 + length) / 8) * 8;
        const array = ([offset, count]) => [...new Float64Array(buffer, first + offset, count)];
        const arrays = (item) => Object.entries(item.arrays).map(([key, at]) => [key, array(at)]);
        return header.items.map((item) => [item, Object.fromEntries(arrays(item))]);
    };
    const of = async (job) =>
        (await (await fetch(new URL(`api/jobs/${job}/curves`, base))).json()).curves[0].id;
"""
SERIES = f"""async ([jobs, points]) => {{{_ASK}
    const id = await of(jobs[0]);
    const curves = jobs.map((job) => ({{ job, id }}));
    const found = await ask("api/series", {{ curves, x: "step", points }});
    return Object.fromEntries(found.map(([item, arrays]) => [item.job, arrays]));
}}"""
"""The points of a chart of these jobs, as its request gets them."""
GROUPS = f"""async ([groups, points]) => {{{_ASK}
    const named = Object.entries(groups);
    const id = await of(named[0][1][0]);
    const of_jobs = (jobs) => jobs.map((job) => ({{ job, id }}));
    const asked = named.map(([key, jobs]) => ({{ key, curves: of_jobs(jobs) }}));
    const found = await ask("api/groups", {{ groups: asked, x: "step", points }});
    return Object.fromEntries(found.map(([item, arrays]) => [item.key, arrays]));
}}"""
