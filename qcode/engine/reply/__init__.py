"""One reply of the model over all its attempts. Pure.

`reply` carries out the decisions of `recovery`, and `phase` has its phases. `attempt` is one request in progress, and
`assembler` classifies it at its end. `seam` joins a continuation to the text before it. `failures` handles errors by
the rules of `retries`. `requests` builds the requests. `state` is shared by these modules and private to them.
"""
