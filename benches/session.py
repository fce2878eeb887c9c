"""One user's session with OpenStack's own SDK: reads what to do, line by line, and prints how many seconds it took.

Of `server` only the call that asks for one counts, until Nova has accepted it; `tidy` waits until it runs, and deletes it."""

import sys
import time

import openstack


def main():
    cloud = openstack.connect()
    image, flavor = cloud.image.find_image(sys.argv[1]).id, cloud.compute.find_flavor("tiny").id
    network = cloud.network.find_network("net").id

    def token():
        cloud.session.auth.get_auth_ref(cloud.session)

    def images():
        list(cloud.image.images())

    def server():
        cloud.compute.create_server(name="bench", image_id=image, flavor_id=flavor, networks=[{"uuid": network}])

    def tidy():
        for one in list(cloud.compute.servers(name="bench")):
            cloud.compute.wait_for_server(one, wait=120, interval=0.5)
            cloud.compute.delete_server(one)
            cloud.compute.wait_for_delete(one, wait=120, interval=0.5)

    deeds = {"token": token, "images": images, "server": server, "tidy": tidy}
    for line in sys.stdin:
        deed = deeds[line.strip()]
        began = time.perf_counter()
        deed()
        print(time.perf_counter() - began, flush=True)


main()
